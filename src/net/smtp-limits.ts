/** The LIMITS extension (RFC 9422): what a server accepts in a session and in a transaction, announced in its EHLO reply. */

export interface SmtpLimits {
  /** Transactions per session. */
  mailMax: number;
  /** Recipients per transaction. */
  rcptMax: number;
  /** Different domains of the recipients of a transaction. */
  rcptDomainMax: number;
}

const NAMES = { mailMax: 'MAILMAX', rcptMax: 'RCPTMAX', rcptDomainMax: 'RCPTDOMAINMAX' } as const;

/** Reads the limits of a server; a limit that is absent or malformed is infinite. RFC 9422 §3.1: a value has one to six digits. */
export function limitsOf(extensions: ReadonlyMap<string, string>): SmtpLimits {
  const parameters = (extensions.get('LIMITS') ?? '').split(/\s+/).map((parameter) => parameter.split('='));
  const limitOf = (name: string): number => {
    const [, value = ''] = parameters.find(([key]) => key?.toUpperCase() === name) ?? [];
    return /^[1-9]\d{0,5}$/.test(value) ? Number(value) : Number.POSITIVE_INFINITY;
  };
  return {
    mailMax: limitOf(NAMES.mailMax),
    rcptMax: limitOf(NAMES.rcptMax),
    rcptDomainMax: limitOf(NAMES.rcptDomainMax),
  };
}
