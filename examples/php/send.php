<?php
// Sends an email with PHP's curl extension and waits for it in the sandbox. Retries a failed send with the same Idempotency-Key, so
// the email is sent only once. Requires POSTRIDER_URL, POSTRIDER_ID, and POSTRIDER_KEY, which must be a sandbox key.
declare(strict_types=1);

const NOT_NOW = [0, 408, 429, 500, 502, 503, 504];
const TRIES = 6;

/** Sends a request once and returns the status (0 without a response), headers, and body. */
function once(string $method, string $path, ?array $body, array $headers, int $timeout): array
{
    $answered = [];
    $handle = curl_init(rtrim(getenv('POSTRIDER_URL'), '/') . $path);
    curl_setopt_array($handle, [
        CURLOPT_CUSTOMREQUEST => $method,
        CURLOPT_RETURNTRANSFER => true,
        CURLOPT_TIMEOUT => $timeout,
        CURLOPT_HTTPHEADER => ['X-Api-Key: ' . getenv('POSTRIDER_KEY'), 'X-Id: ' . getenv('POSTRIDER_ID'), ...$headers],
        CURLOPT_HEADERFUNCTION => function ($handle, string $line) use (&$answered): int {
            if (str_contains($line, ':')) {
                [$name, $value] = explode(':', $line, 2);
                $answered[strtolower($name)] = trim($value);
            }
            return strlen($line);
        },
    ]);
    if ($body !== null) {
        curl_setopt($handle, CURLOPT_POSTFIELDS, json_encode($body, JSON_THROW_ON_ERROR));
    }
    $text = curl_exec($handle);
    $status = $text === false ? 0 : curl_getinfo($handle, CURLINFO_RESPONSE_CODE);
    return [$status, $answered, json_decode((string) $text, true) ?? []];
}

/** Retries requests that are safe to retry: GET, and POST with an Idempotency-Key, which stays the same. */
function call(string $method, string $path, ?array $body = null, ?string $key = null, int $timeout = 30): array
{
    $headers = [];
    if ($body !== null) {
        $headers[] = 'Content-Type: application/json';
    }
    if ($key !== null) {
        $headers[] = "Idempotency-Key: $key";
    }
    $tries = $method === 'GET' || $key !== null ? TRIES : 1;
    for ($try = 1; ; $try++) {
        [$status, $answered, $answer] = once($method, $path, $body, $headers, $timeout);
        if ($status >= 200 && $status < 300) {
            return $answer;
        }
        $code = $answer['error']['code'] ?? 'NO_ANSWER';
        $passes = in_array($status, NOT_NOW, true) || $code === 'DUPLICATE_REQUEST_IN_PROGRESS';
        if ($try === $tries || !$passes) {
            throw new RuntimeException("$status $code: " . ($answer['error']['message'] ?? 'no answer'));
        }
        $wait = 0.5 * 2 ** ($try - 1) * mt_rand(50, 100) / 100;
        usleep((int) (1_000_000 * max($wait, (float) ($answered['retry-after'] ?? 0))));
    }
}

$to = 'ann+' . bin2hex(random_bytes(4)) . '@example.com';
$sent = call('POST', '/send', [
    'from' => 'Shop <orders@shop.example>',
    'to' => $to,
    'subject' => 'Order {{ number }}',
    'text' => 'Thank you.',
    'templateVariables' => ['number' => 17],
], 'order-17-' . bin2hex(random_bytes(8)));
echo $sent['data']['messageId'], ' ', $sent['data']['status'], "\n";
$query = http_build_query(['to' => $to, 'timeoutSeconds' => 30]);
echo call('GET', "/sandbox/inbox/wait?$query", timeout: 40)['subject'], "\n";
