/** What is read of incidents: what fails, whose turn it is, and what to do. */
import { count } from '../parts/time.tsx';

const messages = (number: number): string => `${count(number)} ${number === 1 ? 'message' : 'messages'}`;
const deliveries = (number: number): string => `${count(number)} ${number === 1 ? 'delivery' : 'deliveries'}`;

export const incidents = {
  title: 'Incidents',
  lead: 'What fails now, the heaviest first. An incident goes away by itself once its cause is gone.',
  none: 'Nothing fails',
  noneHint:
    'Mail that is delayed or bounces, webhooks that are not taken and domains whose DKIM record is gone appear here.',
  messages,
  deliveries,
  what: {
    delayed: (destination: string) => `Mail to ${destination} is delayed`,
    bounced: (destination: string) => `Mail to ${destination} bounced`,
    failing: (host: string) => `The webhook to ${host} fails`,
    disabled: (host: string) => `The webhook to ${host} is disabled`,
    warned: 'Live mail may soon be held',
    held: 'Live mail is held',
    domain: (domain: string) => `The DKIM record of ${domain} is gone`,
  },
  states: { delayed: 'Delayed', bounced: 'Bounced', failing: 'Failing', disabled: 'Disabled' },
  turns: {
    recipient: 'The recipient’s',
    sender: 'Yours: the DNS of your domain',
    service: 'The operator’s, who runs this service',
    remote: 'The receiving server’s',
    webhook: 'Yours: the endpoint',
    reputation: 'Yours: the addresses and what you send them',
  },
  columns: { what: 'What', state: 'State', many: 'How many', since: 'Since', advice: 'What to do' },
  allItsMail: 'All its mail',
};

export const incident = {
  title: 'Incident',
  over: 'This incident is over',
  overHint: 'Nothing fails for this reason any more.',
  toList: 'All incidents',
  advice: 'What to do',
  facts: 'What happened',
  whoseTurn: 'Whose turn',
  affected: 'How many',
  since: 'Since',
  lastAt: 'Failed last',
  next: 'Next attempt',
  code: 'Code',
  category: 'Reason',
  reply: 'What the server said',
  lastStatus: 'Last answer',
  disabledReason: 'Disabled because',
  record: 'Missing record',
  messages: 'Affected messages',
  columns: { to: 'Recipient', status: 'Status', failed: 'Failed', next: 'Next attempt', id: 'Message' },
  noMessages: 'None of its messages is left',
  tryMessages: (number: number) => (number === 1 ? 'Try it again' : `Try all ${count(number)} again`),
  tryMessagesHint: (number: number) =>
    `${number === 1 ? '1 message becomes' : `${count(number)} messages become`} due now. Limits and pauses of the destination still hold.`,
  tryDeliveries: (number: number) => (number === 1 ? 'Send it again' : `Send all ${count(number)} again`),
  tryDeliveriesHint: (number: number) =>
    `${number === 1 ? '1 delivery is' : `${count(number)} deliveries are`} sent again now.`,
  bouncedHint: 'These messages are not tried any more. Open one and send it again once the cause is gone.',
  disabledHint: 'A disabled webhook gets nothing. Enable it first, then send again.',
  mayNot: 'Your role may read this, not try it again.',
  progress: (left: number, of: number) => `${count(left)} of ${count(of)} still wait`,
  toWebhook: 'Open the webhook',
  toDomain: 'Open the domain',
  reason: 'Why',
  release: 'Release held mail',
  releaseHint: 'Release the mail once the cause is fixed. Bounce and complaint rates reset to zero.',
  released: 'Held mail is being sent.',
  ownerOnly: 'An owner of the account decides.',
};
