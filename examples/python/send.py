"""Sends an email with Python's standard library and waits for it in the sandbox.

Retries a failed send with the same Idempotency-Key, so the email is sent only once. Requires POSTRIDER_URL, POSTRIDER_ID, and
POSTRIDER_KEY, which must be a sandbox key.
"""

import json
import os
import random
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid

URL = os.environ["POSTRIDER_URL"].rstrip("/")
HEADERS = {"X-Api-Key": os.environ["POSTRIDER_KEY"], "X-Id": os.environ["POSTRIDER_ID"]}
NOT_NOW = {408, 429, 500, 502, 503, 504}
TRIES = 6


class Refused(Exception):
    """A response that is not 2xx. Branch on its code."""

    def __init__(self, status, body):
        error = body.get("error", {})
        super().__init__(f"{status} {error.get('code')}: {error.get('message')} ({body.get('requestId')})")
        self.status, self.code, self.details = status, error.get("code"), error.get("details", [])


def parsed(text):
    try:
        return json.loads(text)
    except ValueError:
        return {}  # a proxy's page


def once(method, path, body, headers, timeout):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(URL + path, data, {**HEADERS, **headers}, method=method)
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        return json.load(answer)


def call(method, path, body=None, key=None, timeout=30):
    """Retries requests that are safe to retry: GET, and POST with an Idempotency-Key, which stays the same."""
    headers = {} if body is None else {"Content-Type": "application/json"}
    if key is not None:
        headers["Idempotency-Key"] = key
    for left in reversed(range(TRIES if method == "GET" or key is not None else 1)):
        wait = 0.5 * 2 ** (TRIES - 1 - left) * random.uniform(0.5, 1)
        try:
            return once(method, path, body, headers, timeout)
        except urllib.error.HTTPError as error:
            refused = Refused(error.code, parsed(error.read()))
            passes = error.code in NOT_NOW or refused.code == "DUPLICATE_REQUEST_IN_PROGRESS"
            if left == 0 or not passes:
                raise refused from None
            wait = max(wait, float(error.headers.get("Retry-After") or 0))
        except OSError:  # no connection, a broken connection, or no response in time
            if left == 0:
                raise
        time.sleep(wait)


if __name__ == "__main__":
    to = f"ann+{uuid.uuid4().hex[:8]}@example.com"
    email = {
        "from": "Shop <orders@shop.example>",
        "to": to,
        "subject": "Order {{ number }}",
        "text": "Thank you.",
        "templateVariables": {"number": 17},
    }
    sent = call("POST", "/send", email, key=f"order-17-{uuid.uuid4()}")
    print(sent["data"]["messageId"], sent["data"]["status"])
    query = urllib.parse.urlencode({"to": to, "timeoutSeconds": 30})
    print(call("GET", f"/sandbox/inbox/wait?{query}", timeout=40)["subject"])
