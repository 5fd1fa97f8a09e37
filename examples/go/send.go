// Sends an email with Go's standard library and waits for it in the sandbox. Retries a failed send with the same Idempotency-Key, so
// the email is sent only once. Requires POSTRIDER_URL, POSTRIDER_ID, and POSTRIDER_KEY, which must be a sandbox key.
package main

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	mathrand "math/rand"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

const tries = 6

var client = &http.Client{Timeout: 40 * time.Second}

// Refused is a response that is not 2xx. Branch on its Code.
type Refused struct {
	Status    int
	RequestID string `json:"requestId"`
	Reason    struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
	retryAfter time.Duration
}

func (r *Refused) Error() string {
	return fmt.Sprintf("%d %s: %s (%s)", r.Status, r.Reason.Code, r.Reason.Message, r.RequestID)
}

func (r *Refused) passes() bool {
	switch r.Status {
	case 408, 429, 500, 502, 503, 504:
		return true
	}
	return r.Reason.Code == "DUPLICATE_REQUEST_IN_PROGRESS"
}

func once(method, path string, body []byte, key string, into any) error {
	address := strings.TrimRight(os.Getenv("POSTRIDER_URL"), "/") + path
	request, err := http.NewRequest(method, address, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("X-Api-Key", os.Getenv("POSTRIDER_KEY"))
	request.Header.Set("X-Id", os.Getenv("POSTRIDER_ID"))
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		request.Header.Set("Idempotency-Key", key)
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode >= 300 {
		refused := &Refused{}
		_ = json.Unmarshal(text, refused) // a proxy's page is no JSON
		refused.Status = answer.StatusCode
		seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After"))
		refused.retryAfter = time.Duration(seconds) * time.Second
		return refused
	}
	return json.Unmarshal(text, into)
}

// call retries requests that are safe to retry: GET, and POST with an Idempotency-Key, which stays the same.
func call(method, path string, body any, key string, into any) error {
	var encoded []byte
	if body != nil {
		var err error
		if encoded, err = json.Marshal(body); err != nil {
			return err
		}
	}
	for try := 1; ; try++ {
		err := once(method, path, encoded, key, into)
		if err == nil {
			return nil
		}
		refused, isRefused := err.(*Refused)
		if try == tries || (method != "GET" && key == "") || (isRefused && !refused.passes()) {
			return err
		}
		wait := time.Duration(float64(500*time.Millisecond) * float64(int(1)<<(try-1)) * (0.5 + mathrand.Float64()/2))
		if isRefused && refused.retryAfter > wait {
			wait = refused.retryAfter
		}
		time.Sleep(wait)
	}
}

func random() string {
	some := make([]byte, 8)
	_, _ = rand.Read(some)
	return hex.EncodeToString(some)
}

func main() {
	to := "ann+" + random() + "@example.com"
	email := map[string]any{
		"from":              "Shop <orders@shop.example>",
		"to":                to,
		"subject":           "Order {{ number }}",
		"text":              "Thank you.",
		"templateVariables": map[string]any{"number": 17},
	}
	var sent struct {
		Data struct{ MessageID, Status string }
	}
	var arrived struct{ Subject string }
	query := url.Values{"to": {to}, "timeoutSeconds": {"30"}}
	err := call("POST", "/send", email, "order-17-"+random(), &sent)
	if err == nil {
		fmt.Println(sent.Data.MessageID, sent.Data.Status)
		err = call("GET", "/sandbox/inbox/wait?"+query.Encode(), nil, "", &arrived)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(arrived.Subject)
}
