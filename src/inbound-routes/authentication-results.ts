/**
 * What a mail proves of the domains that it names, in the words of RFC 8601: SPF of the address it came from, its DKIM signatures, DMARC of
 * its From, and the ARC chain of the servers that it went through. Shapes only; src/inbound-routes/verify-mail.ts makes them.
 */

export const SPF_RESULTS = ['none', 'neutral', 'pass', 'fail', 'softfail', 'temperror', 'permerror'] as const;
export const DKIM_RESULTS = ['pass', 'fail', 'policy', 'neutral', 'temperror', 'permerror'] as const;
export const DMARC_RESULTS = ['none', 'pass', 'fail', 'temperror', 'permerror'] as const;
export const ARC_RESULTS = ['none', 'pass', 'fail'] as const;
export const DMARC_POLICIES = ['none', 'quarantine', 'reject'] as const;

export interface DkimResult {
  result: (typeof DKIM_RESULTS)[number];
  /** As the signature names them; null where it names none. */
  domain: string | null;
  selector: string | null;
  reason: string | null;
}

/** `reason`: why it is no plain pass, for people; null where there is nothing to say. */
export interface AuthenticationResults {
  /** Of the MAIL FROM domain, or of the HELO name where that is empty (RFC 7208 §2.4). */
  spf: { result: (typeof SPF_RESULTS)[number]; domain: string | null; reason: string | null };
  /** Of each signature; empty where there is none. */
  dkim: DkimResult[];
  dmarc: {
    result: (typeof DMARC_RESULTS)[number];
    /** What the domain asks receivers to do with mail that fails; null without a record. */
    policy: (typeof DMARC_POLICIES)[number] | null;
    /** Of From. */
    domain: string | null;
    reason: string | null;
  };
  arc: { result: (typeof ARC_RESULTS)[number]; reason: string | null };
}

/** Nothing was verified. */
export const NOT_AUTHENTICATED: AuthenticationResults = {
  spf: { result: 'none', domain: null, reason: null },
  dkim: [],
  dmarc: { result: 'none', policy: null, domain: null, reason: null },
  arc: { result: 'none', reason: null },
};

/** Verifying ended without results. */
export function notVerified(reason: string): AuthenticationResults {
  return {
    spf: { result: 'temperror', domain: null, reason },
    dkim: [{ result: 'temperror', domain: null, selector: null, reason }],
    dmarc: { result: 'temperror', policy: null, domain: null, reason },
    arc: { result: 'none', reason },
  };
}
