/**
 * Fetches an MTA-STS policy from its policy host (RFC 8461 §3.3): over https with a certificate that is valid for mta-sts.<domain>, at an
 * address that the guard allows, without redirects, as text/plain, at most 64 KB, within a minute.
 */
import type { HttpClient } from '../net/http-client.ts';
import type { TlsFailure } from './host-policy.ts';
import { parseStsPolicy, type StsPolicy } from './mta-sts.ts';

export type FetchedPolicy = { ok: true; policy: StsPolicy } | { ok: false; failure: TlsFailure };

export type FetchStsPolicy = (domain: string, signal?: AbortSignal) => Promise<FetchedPolicy>;

const TIMEOUT_MS = 60_000;

/** Errors of the policy host never reject. `port` is 443 except in tests. */
export function createStsFetch({ http, port = 443 }: { http: Pick<HttpClient, 'get'>; port?: number }): FetchStsPolicy {
  return async (domain, signal) => {
    const host = `mta-sts.${domain}`;
    const refused = (type: TlsFailure['type'], why: string): FetchedPolicy => ({
      ok: false,
      failure: { type, message: `the MTA-STS policy of ${domain} could not be fetched from ${host}: ${why}` },
    });
    const url = `https://${host}${port === 443 ? '' : `:${port}`}/.well-known/mta-sts.txt`;
    const got = await http.get({ url, timeoutMs: TIMEOUT_MS, ...(signal && { signal }) });
    if (!got.ok) return refused(got.kind === 'tls' ? 'sts-webpki-invalid' : 'sts-policy-fetch-error', got.message);
    if (got.status !== 200) return refused('sts-policy-fetch-error', `it returned status ${got.status}`);
    const type = got.headers['content-type'] ?? 'no content type';
    if (!/^text\/plain[ \t]*(?:;|$)/i.test(type)) {
      return refused('sts-policy-fetch-error', `it returned ${type.slice(0, 100)} instead of text/plain`);
    }
    if (!got.body) return refused('sts-policy-fetch-error', 'its response is longer than 64 KB, or was truncated');
    const parsed = parseStsPolicy(got.body.toString('utf8'));
    return parsed.ok ? parsed : refused('sts-policy-invalid', parsed.reason);
  };
}
