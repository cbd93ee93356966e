// Package registrytest is a schema registry in memory, for tests of topologies
// whose serdes need one. It speaks what package registry asks for over HTTP on
// the loopback interface, gives ids from 1 upwards, and checks no compatibility:
// [Server.Refuse] lets it refuse a subject.
package registrytest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/tidegate/tidegate/serde/registry"
)

// Server is a registry in memory.
type Server struct {
	http *httptest.Server

	mu         sync.Mutex
	ids        []stored // id − 1
	subjects   map[string][]int
	serialized map[int]string
	refused    map[string]string
	requests   int
}

type stored struct {
	Type       registry.Type        `json:"schemaType,omitempty"`
	Text       string               `json:"schema"`
	References []registry.Reference `json:"references,omitempty"`
}

// New starts a registry that ends with the test.
func New(t testing.TB) *Server {
	s := &Server{subjects: map[string][]int{}, serialized: map[int]string{}, refused: map[string]string{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /schemas/ids/{id}", s.byID)
	mux.HandleFunc("POST /subjects/{subject}/versions", s.register)
	mux.HandleFunc("POST /subjects/{subject}", s.lookup)
	mux.HandleFunc("GET /subjects/{subject}/versions/{version}", s.version)
	s.http = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.requests++
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(s.http.Close)
	return s
}

// URL is where the registry listens.
func (s *Server) URL() string { return s.http.URL }

// Client returns a client of the registry that tries everything once.
func (s *Server) Client(t testing.TB) *registry.Client {
	c, err := registry.New(s.URL(), registry.WithAttempts(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Add registers a schema and returns its id.
func (s *Server) Add(subject string, schema registry.Schema) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.add(subject, stored{schema.Type, schema.Text, schema.References})
}

// Serialized sets the answer for an id in the serialized form.
func (s *Server) Serialized(id int, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serialized[id] = text
}

// Refuse lets the registration of any schema under a subject fail as
// incompatible; an empty message allows it again.
func (s *Server) Refuse(subject, message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused[subject] = message
}

// Requests returns how many requests were made so far.
func (s *Server) Requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// Subjects returns the names of the subjects, sorted.
func (s *Server) Subjects() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for name := range s.subjects {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

func (s *Server) find(x stored) int {
	if x.Type == registry.Avro {
		x.Type = ""
	}
	for i, o := range s.ids {
		if o.Type == x.Type && o.Text == x.Text && slices.Equal(o.References, x.References) {
			return i + 1
		}
	}
	return 0
}

func (s *Server) add(subject string, x stored) int {
	if x.Type == registry.Avro {
		x.Type = ""
	}
	id := s.find(x)
	if id == 0 {
		s.ids = append(s.ids, x)
		id = len(s.ids)
	}
	if !slices.Contains(s.subjects[subject], id) {
		s.subjects[subject] = append(s.subjects[subject], id)
	}
	return id
}

func (s *Server) byID(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.Atoi(r.PathValue("id"))
	if err != nil || id < 1 || id > len(s.ids) {
		refuse(w, http.StatusNotFound, 40403, "Schema not found")
		return
	}
	x := s.ids[id-1]
	if text, ok := s.serialized[id]; ok && r.URL.Query().Get("format") == "serialized" {
		x.Text = text
	}
	answer(w, x)
}

func (s *Server) register(w http.ResponseWriter, r *http.Request) {
	subject := r.PathValue("subject")
	x, ok := body(w, r)
	if !ok {
		return
	}
	if message := s.refused[subject]; message != "" {
		refuse(w, http.StatusConflict, 409, message)
		return
	}
	answer(w, map[string]int{"id": s.add(subject, x)})
}

func (s *Server) lookup(w http.ResponseWriter, r *http.Request) {
	subject := r.PathValue("subject")
	x, ok := body(w, r)
	if !ok {
		return
	}
	if s.subjects[subject] == nil {
		refuse(w, http.StatusNotFound, 40401, fmt.Sprintf("Subject '%s' not found.", subject))
		return
	}
	i := slices.Index(s.subjects[subject], s.find(x))
	if i < 0 {
		refuse(w, http.StatusNotFound, 40403, "Schema not found")
		return
	}
	s.answerVersion(w, subject, i)
}

func (s *Server) version(w http.ResponseWriter, r *http.Request) {
	subject := r.PathValue("subject")
	versions := s.subjects[subject]
	n, err := strconv.Atoi(r.PathValue("version"))
	if r.PathValue("version") == "latest" {
		n, err = len(versions), nil
	}
	if err != nil || n < 1 || n > len(versions) {
		refuse(w, http.StatusNotFound, 40402, "Version not found.")
		return
	}
	s.answerVersion(w, subject, n-1)
}

func (s *Server) answerVersion(w http.ResponseWriter, subject string, i int) {
	id := s.subjects[subject][i]
	answer(w, struct {
		Subject string `json:"subject"`
		Version int    `json:"version"`
		ID      int    `json:"id"`
		stored
	}{subject, i + 1, id, s.ids[id-1]})
}

func body(w http.ResponseWriter, r *http.Request) (x stored, ok bool) {
	if err := json.NewDecoder(r.Body).Decode(&x); err != nil || x.Text == "" {
		refuse(w, http.StatusUnprocessableEntity, 42201, "Invalid schema")
		return x, false
	}
	return x, true
}

const contentType = "application/vnd.schemaregistry.v1+json"

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", contentType)
	_ = json.NewEncoder(w).Encode(v)
}

func refuse(w http.ResponseWriter, status, code int, message string) {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error_code": code, "message": message})
}
