#!/bin/sh
# Sends an email with curl and waits for it in the sandbox. Retries a failed send with the same Idempotency-Key, so the email is sent
# only once. Requires POSTRIDER_URL, POSTRIDER_ID, and POSTRIDER_KEY, which must be a sandbox key.
set -eu
to="ann+$$@example.com"
key="order-17-$(date +%s)-$$"

api() {
  curl -sS --fail-with-body -H "X-Api-Key: $POSTRIDER_KEY" -H "X-Id: $POSTRIDER_ID" "$@"
}

# curl retries after refused connections, timeouts, 408, 429, 500, 502, 503, and 504, and waits as long as Retry-After says.
send() {
  api "$POSTRIDER_URL/send" --retry 5 --retry-connrefused --max-time 30 \
    -H 'Content-Type: application/json' -H "Idempotency-Key: $key" \
    -d "{ \"from\": \"Shop <orders@shop.example>\", \"to\": \"$to\", \"subject\": \"Order {{ number }}\",
          \"text\": \"Thank you.\", \"templateVariables\": { \"number\": 17 } }"
}

# curl itself does not retry after a connection that broke: 18 (incomplete response), 52 (no response), 55 (while sending), and 56 (while
# receiving). If the service is still processing the lost request, it returns 409 for up to 30 seconds.
max_tries=9
tries=1
until answer=$(send); do
  code=$?
  case "$code $answer" in
    18\ * | 52\ * | 55\ * | 56\ * | *DUPLICATE_REQUEST_IN_PROGRESS*) ;;
    *) tries=$max_tries ;;
  esac
  if [ $tries -ge $max_tries ]; then
    printf '%s\n' "$answer"
    exit $code
  fi
  sleep $tries
  tries=$((tries + 1))
done
printf '%s\n' "$answer"

api -G "$POSTRIDER_URL/sandbox/inbox/wait" --data-urlencode "to=$to" -d timeoutSeconds=30 --max-time 40
echo
