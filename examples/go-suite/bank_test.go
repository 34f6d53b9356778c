package bank

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"testing"

	_ "github.com/go-sql-driver/mysql"
)

// own is a database of the test's own, as schema.sql made it. It goes back to flushlab after the test.
func own(t *testing.T) *sql.DB {
	t.Helper()
	pool := os.Getenv("FLUSHLAB_POOL_URL")
	if pool == "" {
		t.Skip("a database of one's own takes flushlab test")
	}
	var lease struct {
		Host, User, Password, Database string
		Port                           int
		URL                            string `json:"lease_url"`
	}
	ask(t, http.MethodPost, pool+"/databases", &lease)
	db, err := sql.Open("mysql", fmt.Sprintf("%s:%s@tcp(%s:%d)/%s",
		lease.User, lease.Password, lease.Host, lease.Port, lease.Database))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		db.Close()
		ask(t, http.MethodDelete, lease.URL, &struct{}{})
	})
	return db
}

func ask(t *testing.T, method, url string, into any) {
	t.Helper()
	request, err := http.NewRequest(method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("%s failed: %s", method, answer.Status)
	}
	if err := json.NewDecoder(answer.Body).Decode(into); err != nil {
		t.Fatal(err)
	}
}

func wantBalance(t *testing.T, db *sql.DB, owner string, want float64) {
	t.Helper()
	if got, err := Balance(db, owner); err != nil || got != want {
		t.Errorf("%s has %v (%v), want %v", owner, got, err, want)
	}
}

func TestATransferMovesTheAmount(t *testing.T) {
	for _, amount := range []int{1, 10, 50, 100} {
		amount := amount
		t.Run(fmt.Sprint(amount), func(t *testing.T) {
			t.Parallel()
			db := own(t)
			if err := Transfer(db, "Ada", "Bo", amount); err != nil {
				t.Fatal(err)
			}
			wantBalance(t, db, "Ada", float64(100-amount))
			wantBalance(t, db, "Bo", float64(50+amount))
			var id int
			if err := db.QueryRow("SELECT MAX(id) FROM transfer").Scan(&id); err != nil || id != 1 {
				t.Errorf("the first transfer has the number %d (%v)", id, err)
			}
		})
	}
}

func TestATransferOfMoreThanThereIsChangesNothing(t *testing.T) {
	t.Parallel()
	db := own(t)
	if err := Transfer(db, "Bo", "Ada", 51); err == nil || err.Error() != "Bo has too little" {
		t.Errorf("got %v", err)
	}
	wantBalance(t, db, "Bo", 50)
}
