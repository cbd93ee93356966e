package sim

import (
	"testing"
)

// testSteps keeps the tests short; the command runs longer seeds.
const testSteps = 3000

func TestSeeds(t *testing.T) {
	seeds := uint64(300)
	if testing.Short() {
		seeds = 60
	}
	var total Stats
	for seed := uint64(1); seed <= seeds; seed++ {
		r := Run(seed, Options{Steps: testSteps})
		if r.Err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, r.Err, r.Plan)
		}
		if r.Stats.Steps < 500 {
			t.Errorf("seed %d ended after %d steps", seed, r.Stats.Steps)
		}
		total.Add(r.Stats)
	}
	// What is rare occurs in longer ones.
	for _, seed := range []uint64{32} { // a Restore while tasks move
		r := Run(seed, Options{Steps: DefaultSteps})
		if r.Err != nil {
			t.Errorf("seed %d: %v", seed, r.Err)
		}
		total.Add(r.Stats)
	}
	// Schedules that never occur prove nothing.
	for _, c := range []struct {
		what  string
		count int
	}{
		{"crashes", total.Crashes}, {"completes", total.Completes}, {"aborts", total.Aborts}, {"rollbacks", total.Rollbacks},
		{"zombie writes", total.ZombieWrites}, {"late requests", total.LateRequests}, {"restores", total.Restores},
		{"clean stops", total.CleanStops}, {"dropped records", total.Drops}, {"cuts with in-flight records", total.InFlightCuts},
		{"outputs", total.Outputs}, {"handovers", total.Handovers}, {"moved tasks", total.MovedTasks},
		{"partial rollbacks", total.Partial}, {"task failures", total.TaskFailures},
		{"records read again", total.Rereads}, {"records of one of two leaders", total.TwoLeaders},
		{"unanswered EndTxn", total.UnansweredEnds}, {"unanswered InitProducerId", total.UnansweredInits},
		{"timeouts of transactions", total.TxnTimeouts}, {"restores while tasks move", total.RestoredMoves},
		{"checkpoints that carry tasks over", total.CarryingOver},
		{"tasks followed by standbys", total.Followed},
		{"snapshots", total.Snapshots}, {"trims", total.Trims}, {"starts from a snapshot", total.Sought},
		{"instances driven out by a trim", total.TrimmedOut},
	} {
		if c.count == 0 {
			t.Errorf("%d seeds without any %s", seeds, c.what)
		}
	}
}

// The same seed gives the same history, or a failure could not be replayed.
func TestDeterminism(t *testing.T) {
	for seed := uint64(1); seed <= 20; seed++ {
		a := Run(seed, Options{Steps: testSteps})
		b := Run(seed, Options{Steps: testSteps, Trace: true})
		if a.Hash != b.Hash || a.Stats != b.Stats {
			t.Errorf("seed %d: %016x %+v, then %016x %+v", seed, a.Hash, a.Stats, b.Hash, b.Stats)
		}
		if c := Run(seed+1000, Options{Steps: testSteps}); c.Hash == a.Hash {
			t.Errorf("seeds %d and %d have the same history", seed, seed+1000)
		}
	}
}

// Every rule that is removed is missed, so the checks can fail.
func TestMutants(t *testing.T) {
	for _, m := range Mutants() {
		t.Run(m.Name, func(t *testing.T) {
			r, found := Hunt(m, 1000, DefaultSteps)
			if !found {
				t.Fatal("1000 seeds pass without the rule")
			}
			t.Logf("seed %d: %v", r.Seed, r.Err)
			again := Run(r.Seed, Options{Steps: DefaultSteps, Rules: m.Rules})
			if again.Err == nil || again.Err.Error() != r.Err.Error() {
				t.Errorf("seed %d replays as %v", r.Seed, again.Err)
			}
		})
	}
}

// Seeds that found something once. The world changes with the code, so a seed
// need not meet its old schedule again; what it found has a test of its own
// where the error was.
func TestRegressions(t *testing.T) {
	for _, c := range []struct {
		seed  uint64
		found string
	}{
		{1, "the pool's and the log's names of transactional ids differed: no output ever"},
		{6, "a late Register brought a removed instance back, which displaced the living one of its name"},
		{45, "group offsets are ordered by their commits, not by the markers"},
		{174, "records of a cycle channel unread through a checkpoint and a restart were skipped"},
		{228, "an instance without tasks looked for a retired checkpoint"},
		{314, "an instance that ended aborted a transaction which its ack had listed"},
		{346, "a late copy of an offset commit began another transaction under the old handle"},
		{465, "a replaced coordinator overwrote the group offsets"},
		{475, "a Start gave tasks to an instance that had said Leaving, and everything rolled back"},
		{1096, "a late answer to the offsets check ended an instance that ran again"},
		{1131, "copies of a Start are void and make no incarnation"},
		{1484, "a coordinator that led again in its own term waited for a write of offsets that it had given up"},
		{1544, "a replaced coordinator took offsets of later checkpoints for a reset"},
		{9115, "a coordinator that slept repeated its decision after the transactions had timed out"},
		{58771, "a closed incarnation was forgotten before its in-flight cycle records were read, over two handovers"},
		{111, "a checkpoint carried tasks over from the target of a Restore, whose positions were purged"},
		{24278, "a checkpoint carried tasks that an aborted barrier had passed: what they had prepared was committed"},
		{8565, "the oracle took the late mark of a checkpoint that a Restore had retired for the newest"},
		{14661, "the oracle took the timeout of an empty transaction, which a late request began under a committed handle, for lost output"},
		{63498, "the oracle knew no rollback for the age of transactions behind slow checkpoints"},
		{111691, "the oracle missed objects of a Start that its writer read when a Restore had undone it"},
	} {
		if r := Run(c.seed, Options{Steps: DefaultSteps}); r.Err != nil {
			t.Errorf("seed %d (%s): %v", c.seed, c.found, r.Err)
		}
	}
}
