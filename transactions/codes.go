package transactions

import "fmt"

// Code is a Kafka error code, or NoAnswer. Executor's Client returns it as an
// error; any other error means that no answer came.
type Code int16

// The codes that decide something here.
const (
	NoAnswer                   Code = -32768 // the request may or may not have been carried out
	UnknownServerError         Code = -1
	OK                         Code = 0
	MessageTooLarge            Code = 10
	RequestTimedOut            Code = 7
	CoordinatorLoadInProgress  Code = 14
	CoordinatorNotAvailable    Code = 15
	NotCoordinator             Code = 16
	TopicAuthorizationFailed   Code = 29
	GroupAuthorizationFailed   Code = 30
	InvalidProducerEpoch       Code = 47
	InvalidTxnState            Code = 48
	InvalidProducerIDMapping   Code = 49
	InvalidTxnTimeout          Code = 50
	ConcurrentTransactions     Code = 51
	TxnCoordinatorFenced       Code = 52
	TxnIDAuthorizationFailed   Code = 53
	ClusterAuthorizationFailed Code = 31
	ProducerFenced             Code = 90
	TxnIDNotFound              Code = 105
	Abandoned                  Code = -32767 // the writer gave a batch up after Drop
	NotSent                    Code = -32766 // no connection: the broker cannot have got the request
)

// Error makes a Code an error.
func (c Code) Error() string { return c.String() }

// String names the code as Kafka does.
func (c Code) String() string {
	if s, ok := codeNames[c]; ok {
		return s
	}
	return fmt.Sprintf("error code %d", int16(c))
}

var codeNames = map[Code]string{
	NoAnswer: "no answer", UnknownServerError: "UNKNOWN_SERVER_ERROR (-1)", OK: "OK",
	MessageTooLarge:            "MESSAGE_TOO_LARGE (10)",
	RequestTimedOut:            "REQUEST_TIMED_OUT (7)",
	CoordinatorLoadInProgress:  "COORDINATOR_LOAD_IN_PROGRESS (14)",
	CoordinatorNotAvailable:    "COORDINATOR_NOT_AVAILABLE (15)",
	NotCoordinator:             "NOT_COORDINATOR (16)",
	TopicAuthorizationFailed:   "TOPIC_AUTHORIZATION_FAILED (29)",
	GroupAuthorizationFailed:   "GROUP_AUTHORIZATION_FAILED (30)",
	ClusterAuthorizationFailed: "CLUSTER_AUTHORIZATION_FAILED (31)",
	InvalidProducerEpoch:       "INVALID_PRODUCER_EPOCH (47)",
	InvalidTxnState:            "INVALID_TXN_STATE (48)",
	InvalidProducerIDMapping:   "INVALID_PRODUCER_ID_MAPPING (49)",
	InvalidTxnTimeout:          "INVALID_TRANSACTION_TIMEOUT (50)",
	ConcurrentTransactions:     "CONCURRENT_TRANSACTIONS (51)",
	TxnCoordinatorFenced:       "TRANSACTION_COORDINATOR_FENCED (52)",
	TxnIDAuthorizationFailed:   "TRANSACTIONAL_ID_AUTHORIZATION_FAILED (53)",
	ProducerFenced:             "PRODUCER_FENCED (90)",
	TxnIDNotFound:              "TRANSACTIONAL_ID_NOT_FOUND (105)",
	Abandoned:                  "given up", NotSent: "not sent",
}

// Class is the reaction to a code.
type Class uint8

// The classes. Where a request was answered "retry later", that is definite:
// nothing was done.
const (
	Done    Class = iota // carried out
	Retry                // not carried out, ask again later
	Unknown              // perhaps carried out: no definite answer
	Gone                 // the handle is no longer the id's: ended by someone else
	Denied               // not allowed, or set up wrongly: asking again will not help
	Refused              // any other definite refusal
)

// Classify is the one table of codes for transaction requests.
func Classify(c Code) Class {
	switch c {
	case OK:
		return Done
	case NotSent,
		ConcurrentTransactions,                                             // the coordinator still ends the previous one
		CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator, // ask the new coordinator
		TxnCoordinatorFenced, // the coordinator moved while it wrote
		3, 5, 6:              // UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, NOT_LEADER: metadata is behind
		return Retry
	case NoAnswer, RequestTimedOut, UnknownServerError:
		return Unknown
	case InvalidProducerEpoch, InvalidTxnState, InvalidProducerIDMapping, ProducerFenced:
		return Gone
	case TopicAuthorizationFailed, GroupAuthorizationFailed, ClusterAuthorizationFailed, TxnIDAuthorizationFailed, InvalidTxnTimeout:
		return Denied
	}
	return Refused
}

// TxnState is a transaction's state as DescribeTransactions names it.
type TxnState string

// The states of Kafka's transaction coordinator.
const (
	StateEmpty          TxnState = "Empty"
	StateOngoing        TxnState = "Ongoing"
	StatePrepareCommit  TxnState = "PrepareCommit"
	StatePrepareAbort   TxnState = "PrepareAbort"
	StateCompleteCommit TxnState = "CompleteCommit"
	StateCompleteAbort  TxnState = "CompleteAbort"
)
