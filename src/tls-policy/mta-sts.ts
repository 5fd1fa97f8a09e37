/**
 * Parses MTA-STS (RFC 8461): the TXT record that announces a policy, the policy, and the hosts it names. Pure.
 */

export interface StsPolicy {
  mode: 'enforce' | 'testing' | 'none';
  /** Host names in lower case, or `*.` and a name for exactly one label before it. */
  mx: string[];
  maxAgeSeconds: number;
}

/** RFC 8461 §3.2: a year; longer times are reduced to it. */
const MAX_AGE_SECONDS = 31_557_600;
const MAX_PATTERNS = 200;

/**
 * Returns the policy id among the TXT records of `_mta-sts.<domain>` (§3.1); undefined if there is none, more than one, or it is malformed:
 * the domain then has no policy.
 */
export function stsId(records: readonly string[]): string | undefined {
  const own = records.filter((text) => /^v=STSv1[ \t]*;/.test(text));
  if (own.length !== 1) return undefined;
  for (const field of own[0]!.split(';').slice(1)) {
    const id = /^[ \t]*id[ \t]*=[ \t]*([A-Za-z0-9]{1,32})[ \t]*$/.exec(field);
    if (id) return id[1];
  }
  return undefined;
}

const LABELS = /^(?:\*\.)?(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9])?\.)*[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9])?$/;

function patternOf(text: string): string | undefined {
  const pattern = text.toLowerCase().replace(/\.$/, '');
  return pattern.length <= 255 && LABELS.test(pattern) ? pattern : undefined;
}

const FIELD_NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,31}$/;

/** Parses a policy, or returns why it is invalid (§3.2). Unknown fields are ignored; the first field of a name applies. */
export function parseStsPolicy(text: string): { ok: true; policy: StsPolicy } | { ok: false; reason: string } {
  const fields = new Map<string, string>();
  const mx: string[] = [];
  for (const line of text.split(/\r?\n/)) {
    if (line.trim() === '') continue;
    // Split without a pattern: one that skips white space on both sides of the value takes hours for a hostile line of 64 KB.
    const colon = line.indexOf(':');
    const name = line.slice(0, Math.max(0, colon)).trim();
    const value = line.slice(colon + 1).trim();
    if (!FIELD_NAME.test(name)) return { ok: false, reason: 'a line does not have the form `name: value`' };
    if (name !== 'mx') {
      if (!fields.has(name)) fields.set(name, value);
      continue;
    }
    const pattern = patternOf(value);
    if (pattern === undefined)
      return { ok: false, reason: 'an mx value is not a host name or a wildcard such as *.example.com' };
    if (mx.length < MAX_PATTERNS) mx.push(pattern);
  }
  if (fields.get('version') !== 'STSv1') return { ok: false, reason: 'version is not STSv1' };
  const mode = fields.get('mode');
  if (mode !== 'enforce' && mode !== 'testing' && mode !== 'none') {
    return { ok: false, reason: 'mode is not enforce, testing or none' };
  }
  const maxAge = fields.get('max_age') ?? '';
  if (!/^\d{1,10}$/.test(maxAge)) return { ok: false, reason: 'max_age is not a number of seconds' };
  if (mode !== 'none' && mx.length === 0) return { ok: false, reason: 'the mx field is missing' };
  return { ok: true, policy: { mode, mx, maxAgeSeconds: Math.min(Number(maxAge), MAX_AGE_SECONDS) } };
}

/** Returns whether the policy names this host (§4.1): `*.example.com` matches exactly one label before example.com. */
export function stsNames(policy: Pick<StsPolicy, 'mx'>, host: string): boolean {
  const name = host.toLowerCase().replace(/\.$/, '');
  const parent = name.slice(name.indexOf('.') + 1);
  return policy.mx.some((pattern) =>
    pattern.startsWith('*.') ? name.includes('.') && pattern.slice(2) === parent : pattern === name,
  );
}
