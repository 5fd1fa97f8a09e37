/**
 * Authentication results of an inbound message (RFC 8601): SPF of its envelope sender, its DKIM signatures, DMARC of its From, and the ARC
 * chain. Types only; src/inbound-routes/verify-mail.ts creates them.
 */

export const SPF_RESULTS = ['none', 'neutral', 'pass', 'fail', 'softfail', 'temperror', 'permerror'] as const;
export const DKIM_RESULTS = ['pass', 'fail', 'policy', 'neutral', 'temperror', 'permerror'] as const;
export const DMARC_RESULTS = ['none', 'pass', 'fail', 'temperror', 'permerror'] as const;
export const ARC_RESULTS = ['none', 'pass', 'fail'] as const;
export const DMARC_POLICIES = ['none', 'quarantine', 'reject'] as const;

export interface DkimResult {
  result: (typeof DKIM_RESULTS)[number];
  /** As named by the signature; null if it names none. */
  domain: string | null;
  selector: string | null;
  reason: string | null;
}

/** `reason`: explanation of any result other than a plain pass; null if there is none. */
export interface AuthenticationResults {
  /** For the MAIL FROM domain, or the HELO name if MAIL FROM is empty (RFC 7208 §2.4). */
  spf: { result: (typeof SPF_RESULTS)[number]; domain: string | null; reason: string | null };
  /** One entry per signature; empty without signatures. */
  dkim: DkimResult[];
  dmarc: {
    result: (typeof DMARC_RESULTS)[number];
    /** The domain's policy for mail that fails; null without a record. */
    policy: (typeof DMARC_POLICIES)[number] | null;
    /** Domain of From. */
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
