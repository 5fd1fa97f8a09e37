/** Sentences about a message: what happened to it, and what happens next. Times are passed in as text. */
export const causes: Readonly<Record<string, string>> = {
  'mailbox-not-found': 'the mailbox doesn’t exist',
  'mailbox-disabled': 'the mailbox is disabled',
  'mailbox-full': 'the mailbox is full',
  'domain-not-found': 'the domain doesn’t exist or doesn’t accept email',
  blocked: 'the receiving server blocks the sending host',
  policy: 'rejected for policy reasons',
  'content-rejected': 'the content or size was rejected',
  'rate-limited': 'the receiving server limits the sending rate',
  greylisted: 'the receiving server greylists unknown senders',
  smtputf8: 'the receiving server doesn’t support internationalized addresses (SMTPUTF8)',
  tls: 'no TLS connection could be established',
  network: 'the receiving server couldn’t be reached',
  'remote-error': 'the receiving server reported an internal error',
  refused: 'the receiving server gave no known reason',
  internal: 'Postrider had an internal problem',
  'warm-up': 'the sending IP addresses are still warming up',
  'relay-limit': 'the relay’s sending limit was reached',
};

/** Why a message is delayed, with the recipient’s domain. */
export const waits: Readonly<Record<string, (domain: string) => string>> = {
  'mailbox-not-found': (domain) => `${domain} temporarily doesn’t recognize this address`,
  'mailbox-disabled': () => 'the mailbox is temporarily unavailable',
  'mailbox-full': () => 'the mailbox is full',
  'domain-not-found': (domain) => `${domain} couldn’t be resolved (temporary DNS failure)`,
  blocked: (domain) => `${domain} blocks the sending host`,
  policy: (domain) => `${domain} deferred this email for policy reasons`,
  'content-rejected': (domain) => `${domain} deferred this email because of its content or size`,
  'rate-limited': (domain) => `${domain} limits how fast it accepts email`,
  greylisted: (domain) => `${domain} asked to retry later (greylisting)`,
  smtputf8: (domain) => `${domain} doesn’t currently support internationalized addresses`,
  tls: (domain) => `no TLS connection to ${domain} could be established`,
  network: (domain) => `no mail server of ${domain} could be reached`,
  'remote-error': (domain) => `${domain} reported a temporary error`,
  refused: (domain) => `${domain} deferred this email without giving a reason`,
  internal: () => 'Postrider had an internal problem',
  'warm-up': (domain) => `today’s warm-up limit for ${domain} has been reached`,
  'relay-limit': () => 'the sending limit of your operator’s relay has been reached',
};

export const turns = {
  nobody: 'No action needed.',
  you: 'Action required.',
  operator: 'Waiting on your operator.',
};

export const happened = {
  scheduled: (at: string, from: string) => `Scheduled to send at ${at} (${from}).`,
  queued: (at: string) => `Accepted at ${at} and queued.`,
  queuedAgain: 'Retrying now.',
  sending: (number: number) => `Sending now (attempt ${number}).`,
  delayed: (because: string) => `Delayed: ${because}.`,
  delivered: (host: string, at: string, after: string) => `Delivered to ${host} at ${at} (${after} after acceptance).`,
  deliveredPlain: (host: string, at: string) => `Delivered to ${host} at ${at}.`,
  bounced: (domain: string, at: string, cause: string) => `Bounced by ${domain} at ${at}: ${cause}.`,
  failed: (at: string, cause: string) => `Failed at ${at}: ${cause}.`,
  returned: (host: string, at: string, cause: string) =>
    `${host} accepted the email, then bounced it at ${at}: ${cause}.`,
  returnedExpired: (host: string, at: string) =>
    `${host} accepted the email, but couldn’t deliver it and gave up at ${at}.`,
  expired: (at: string, after: string, domain: string) =>
    `Expired at ${at} after ${after}: ${domain} never accepted it.`,
  complained: (at: string) => `Marked as spam by the recipient at ${at}.`,
  suppressed: (to: string) => `Not sent: ${to} is on your suppression list.`,
  suppressedSimulated: 'Not sent (simulated): the sandbox treated this address as suppressed.',
  cancelled: (at: string) => `Canceled at ${at}, before sending.`,
};

export const next = {
  scheduled: 'Sends automatically at that time. You can reschedule or cancel it until then.',
  queued: 'Sends within seconds.',
  queuedLong: (since: string) =>
    `Queued for ${since}: other messages are ahead of it, or its destination limits the sending rate. It sends automatically.`,
  sending: 'This usually takes a few seconds.',
  again: (at: string, from: string) => `Next attempt at ${at} (${from}).`,
  latest: (reply: string) => `Last response: “${reply}”.`,
  againUntil: (at: string) => `Postrider keeps retrying until ${at}.`,
  delivered: 'If the recipient can’t find it, ask them to check their spam folder.',
  opened: 'Opened.',
  clicked: 'A link was clicked.',
  inTheClear: (why: string) => `Sent without TLS: ${why}.`,
  noTls: 'the receiving server doesn’t support TLS',
  isSuppressed: 'The address is now suppressed. Further emails to it aren’t sent.',
  isLifted: 'The address has since been removed from the suppression list. You can resend the message.',
  expired: 'Check the last response, fix the cause, then resend.',
  complained: 'Don’t email this address again unless the recipient asks you to.',
  suppressed: 'If the recipient agrees, remove the address from the suppression list, then resend the message.',
  cancelled: 'Resend it if it should still be delivered.',
  simulated: 'Simulated in the sandbox. Nothing was sent.',
};
