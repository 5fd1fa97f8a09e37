/** Texts about incidents: what fails, who can fix it, and how. */
import { count } from '../parts/time.tsx';

const messages = (number: number): string => `${count(number)} ${number === 1 ? 'message' : 'messages'}`;
const deliveries = (number: number): string => `${count(number)} ${number === 1 ? 'delivery' : 'deliveries'}`;

export const incidents = {
  title: 'Incidents',
  lead: 'Ongoing problems, most severe first. Incidents close automatically once the cause is fixed.',
  none: 'No incidents',
  noneHint: 'Delayed or bounced emails, failing webhooks, and missing DKIM records appear here.',
  messages,
  deliveries,
  what: {
    delayed: (destination: string) => `Emails to ${destination} are delayed`,
    bounced: (destination: string) => `Emails to ${destination} are bouncing`,
    failing: (host: string) => `Webhook ${host} is failing`,
    disabled: (host: string) => `Webhook ${host} was disabled`,
    warned: 'Live email may soon be held',
    held: 'Live email is held',
    domain: (domain: string) => `DKIM record missing for ${domain}`,
  },
  states: { delayed: 'Delayed', bounced: 'Bounced', failing: 'Failing', disabled: 'Disabled' },
  advice: {
    failing: (host: string) =>
      `${host} must respond with a 2xx status within 15 s. Postrider retries automatically, and disables the webhook after 5 days of failures.`,
    disabled: (host: string) => `Fix ${host}, enable the webhook, then replay the missed events.`,
    domain: (record: string) =>
      `Publish the TXT record ${record} again, then verify the domain. Until then, emails from the domain fail DKIM, and 24 hours after the record disappeared Postrider rejects them.`,
    rates: {
      bounceRate: 'Many addresses don’t exist. Confirm addresses when they are entered, and remove old ones.',
      complaintRate:
        'Many recipients mark your email as spam. Send only email that they asked for, and make it easy to unsubscribe.',
    } as Readonly<Record<string, string>>,
    warned: 'Live email is still sent. If the rate gets too high, it’s held until an owner or an operator releases it.',
    held: 'Once the cause is fixed, an owner can release held email. Until then, Postrider accepts live email and holds it.',
  },
  turns: {
    recipient: 'Recipient',
    sender: 'You (DNS records)',
    service: 'Operator',
    remote: 'Receiving server',
    webhook: 'You (webhook endpoint)',
    reputation: 'You (addresses and content)',
  },
  columns: { what: 'Incident', state: 'Status', many: 'Affected', since: 'Since', advice: 'Next step' },
  allItsMail: 'All live email',
};

export const incident = {
  title: 'Incident',
  over: 'This incident is resolved',
  overHint: 'The problem no longer occurs.',
  toList: 'All incidents',
  advice: 'Next step',
  facts: 'Details',
  whoseTurn: 'Waiting on',
  affected: 'Affected',
  since: 'Since',
  lastAt: 'Last failure',
  next: 'Next attempt',
  code: 'Code',
  category: 'Category',
  reply: 'Server response',
  lastStatus: 'Last response',
  disabledReason: 'Disabled reason',
  record: 'Missing record',
  messages: 'Affected messages',
  columns: { to: 'Recipient', status: 'Status', failed: 'Failed', next: 'Next attempt', id: 'Message' },
  noMessages: 'No messages left',
  tryMessages: (number: number) => (number === 1 ? 'Retry now' : `Retry all ${count(number)}`),
  tryMessagesHint: (number: number) =>
    `Retries ${messages(number)} now. Limits and pauses of the destination still apply.`,
  tryDeliveries: (number: number) => (number === 1 ? 'Redeliver' : `Redeliver all ${count(number)}`),
  tryDeliveriesHint: (number: number) => `Sends ${deliveries(number)} again now.`,
  bouncedHint: 'These messages won’t be retried. Fix the cause, then open a message to resend it.',
  disabledHint: 'Enable the webhook before redelivering.',
  mayNot: 'Your role can view this incident, but not retry.',
  progress: (left: number, of: number) => `${count(left)} of ${count(of)} remaining`,
  toWebhook: 'View webhook',
  toDomain: 'View domain',
  reason: 'Reason',
  release: 'Release held email',
  releaseHint: 'Release held email once the cause is fixed. Bounce and complaint rates reset to zero.',
  released: 'Held email is being sent.',
  ownerOnly: 'Only account owners can release held email.',
};
