/** Texts of the page Get started. */
export const start = {
  title: 'Get started',
  lead: 'Send your first email in the sandbox, watch it arrive, then go live.',

  send: 'Send a test email',
  sendHere: 'Send test email',
  sendHereHint: 'It arrives in your sandbox inbox and appears under “Received emails”.',
  mayNotSend: 'Viewers can’t send. Ask an owner to make you a member.',
  byCode: 'Send from your code',
  makeKey: 'Insert API key',
  makeKeyHint: 'Creates a sandbox key and inserts it into the examples.',
  keyIsReal: 'Sandbox key inserted. It’s stored in this tab only and won’t be shown again.',
  keyName: 'Get started',
  makeCredential: 'Insert SMTP credential',
  makeCredentialHint: 'Creates a sandbox SMTP credential and inserts it into the SMTP examples.',
  credentialIsReal: 'Sandbox SMTP credential inserted. It’s stored in this tab only and won’t be shown again.',
  ownCertificate: 'remove once the server has a trusted certificate',
  askOwner: 'Only owners can create keys. Ask one for a sandbox key and set POSTRIDER_KEY.',
  examples: 'Language',

  arrived: 'Received emails',
  waiting: 'Waiting for your first email…',
  waitingHint: 'It will appear here automatically.',
  onItsWay: 'Sending',
  toInbox: 'View inbox',
  noSubject: '(no subject)',
  to: (address: string) => `to ${address}`,

  mail: {
    from: 'Your app <hello@app.example>',
    to: 'ann@example.com',
    subject: 'Hello from Postrider',
    text: 'It works. Your code is 482913.\nOpen https://app.example/welcome to continue.',
    html: '<h1>It works</h1><p>Your code is <b>482913</b>.</p><p><a href="https://app.example/welcome">Continue</a></p>',
  },
};

export const checklist = {
  account: 'Go-live checklist',
  accountHint: 'Checked automatically.',
  service: 'System health',
  serviceHint: 'Only operators see these checks.',
  looking: 'Checking…',
  states: { done: 'Done', todo: 'To do', unknown: 'Not checked' },
  attention: (number: number) =>
    number === 0 ? 'No checks need attention' : `${number} ${number === 1 ? 'check needs' : 'checks need'} attention`,
  progress: (done: number, all: number) => `${done} of ${all} done`,

  domain: 'Verify a domain',
  domainDone: (name: string) => `${name} is verified.`,
  domainUnsigned: (name: string) =>
    `An operator marked ${name} as verified, but its DKIM record wasn’t found. Publish it.`,
  domainPending: (name: string) => `${name} is pending. Publish its DNS records.`,
  domainFailing: (name: string) => `The DKIM record for ${name} is missing. Republish it.`,
  domainNone: 'Add your sending domain and publish its DNS records.',
  toDomains: 'Domains',

  key: 'Create a live API key',
  keyDone: 'This account has a live API key.',
  keyNone: 'Your application needs a live API key. Owners can create one.',
  toKeys: 'API keys & SMTP',

  smtp: 'Create a live SMTP credential',
  smtpDone: 'This account has a live SMTP credential.',
  smtpNone: 'Optional. You need it only to send over SMTP.',
  smtpPlan: 'SMTP isn’t available on this plan. Use the API instead.',

  webhook: 'Create a webhook',
  webhookDone: 'A webhook receives live events.',
  webhookFails: 'Every delivery to your webhook fails. Check your endpoint.',
  webhookOff: 'Your webhook is disabled. Enable it.',
  webhookNone: 'Get notified about bounces and complaints.',
  toWebhooks: 'Webhooks',

  health: 'Sending health',
  healthGood: (messages: string, days: number) =>
    `Healthy: ${messages} emails in ${days} days, with few bounces and complaints.`,
  healthFew: (least: number) =>
    `Not enough data yet: ${least === 1 ? 'no message has' : `fewer than ${least} messages have`} been delivered or bounced.`,
  healthNone: 'No live emails sent yet.',
  toOverview: 'Overview',
  toDoctor: 'System health',
};
