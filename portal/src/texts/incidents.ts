/** What is read of incidents: what fails, whose turn it is, and what to do. */
import { count } from '../parts/time.tsx';

const messages = (number: number): string => `${count(number)} ${number === 1 ? 'message' : 'messages'}`;
const deliveries = (number: number): string => `${count(number)} ${number === 1 ? 'delivery' : 'deliveries'}`;

export const incidents = {
  title: 'Incidents',
  lead: 'Ongoing problems, most severe first. Incidents resolve automatically.',
  none: 'No incidents',
  noneHint:
    'Delayed or bounced emails, failing webhooks and missing DKIM records appear here.',
  messages,
  deliveries,
  what: {
    delayed: (destination: string) => `Emails to ${destination} are delayed`,
    bounced: (destination: string) => `Emails to ${destination} are bouncing`,
    failing: (host: string) => `Webhook ${host} is failing`,
    disabled: (host: string) => `Webhook ${host} was disabled`,
    warned: 'Live mail may soon be held',
    held: 'Live mail is held',
    domain: (domain: string) => `DKIM record missing for ${domain}`,
  },
  states: { delayed: 'Delayed', bounced: 'Bounced', failing: 'Failing', disabled: 'Disabled' },
  turns: {
    recipient: 'Recipient',
    sender: 'You (DNS records)',
    service: 'Operator',
    remote: 'Recipient server',
    webhook: 'You (webhook endpoint)',
    reputation: 'You (list quality and content)',
  },
  columns: { what: 'What', state: 'State', many: 'How many', since: 'Since', advice: 'What to do' },
  allItsMail: 'All live email',
};

export const incident = {
  title: 'Incident',
  over: 'This incident is resolved',
  overHint: 'The problem no longer occurs.',
  toList: 'All incidents',
  advice: 'What to do',
  facts: 'Details',
  whoseTurn: 'Waiting on',
  affected: 'Affected',
  since: 'Since',
  lastAt: 'Last failure',
  next: 'Next attempt',
  code: 'Code',
  category: 'Category (and show “Blocked”, not the API word “blocked”)',
  reply: 'Server response',
  lastStatus: 'Last response',
  disabledReason: 'Disabled reason',
  record: 'Missing record',
  messages: 'Affected messages',
  columns: { to: 'Recipient', status: 'Status', failed: 'Failed', next: 'Next attempt', id: 'Message' },
  noMessages: 'No messages left',
  tryMessages: (number: number) => (number === 1 ? 'Retry now' : `Retry all ${count(number)}`),
  tryMessagesHint: (number: number) =>
    `${number === 1 ? '1 message becomes' : `${count(number)} messages become`} due now. Limits and pauses of the destination still hold.`,
  tryDeliveries: (number: number) => (number === 1 ? 'Redeliver' : `Redeliver all ${count(number)}`),
  tryDeliveriesHint: (number: number) =>
    `${number === 1 ? '1 delivery is' : `${count(number)} deliveries are`} sent again now.`,
  bouncedHint: 'These messages won’t be retried. Fix the cause, then open a message to resend it.',
  disabledHint: 'Enable the webhook before redelivering.',
  mayNot: 'Your role can view this but not retry.',
  progress: (left: number, of: number) => `${count(left)} of ${count(of)} remaining`,
  toWebhook: 'View webhook',
  toDomain: 'View domain',
  reason: 'Why',
  release: 'Release held mail',
  releaseHint: 'Release the mail once the cause is fixed. Bounce and complaint rates reset to zero.',
  released: 'Held mail is being sent.',
  ownerOnly: 'Only account owners can resume sending.',
};
