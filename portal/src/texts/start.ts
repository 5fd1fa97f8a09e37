/** What is read on the page of the first steps. */
export const start = {
  title: 'Get started',
  lead: 'Send your first email in the sandbox, watch it arrive, then go live.',

  send: 'Send a test email',
  sendHere: 'Send test email',
  sendHereHint: 'Delivered to your sandbox inbox and shown below.',
  mayNotSend: 'Viewers can’t send. Ask an owner to make you a member.',
  byCode: 'Send from your code',
  makeKey: 'Insert API key',
  makeKeyHint: 'Creates a sandbox key and inserts it into the examples.',
  keyIsReal: 'Sandbox key inserted. It’s stored in this tab only and won’t be shown again.',
  keyName: 'First steps',
  makeCredential: 'Insert SMTP credentials',
  makeCredentialHint: 'Creates a sandbox SMTP credential and inserts it into the SMTP examples.',
  credentialIsReal: 'Real sandbox credentials are filled in. They are kept in this tab only.',
  ownCertificate: 'remove once the server has a trusted certificate',
  askOwner: 'Only owners can create keys. Ask one for a sandbox key and set POSTRIDER_KEY.',
  examples: 'Language',

  arrived: 'Received emails',
  waiting: 'Waiting for your first email…',
  waitingHint: 'It will appear here automatically.',
  onItsWay: 'On its way',
  toInbox: 'View inbox',
  noSubject: '(no subject)',
  to: (address: string) => `to ${address}`,

  mail: {
    from: 'Your app <hello@app.example>',
    to: 'ann@example.com',
    subject: 'Hello from Postrider',
    text: 'It works. Your code is 482913.\nOpen https://app.example/welcome to go on.',
    html: '<h1>It works</h1><p>Your code is <b>482913</b>.</p><p><a href="https://app.example/welcome">Go on</a></p>',
  },
};

export const checklist = {
  account: 'Go-live checklist',
  accountHint: 'Checked automatically.',
  service: 'The service itself',
  serviceHint: 'System health checks (operators only).',
  looking: 'Looking…',
  states: { done: 'Done', todo: 'To do', unknown: 'Cannot be known' },
  progress: (done: number, all: number) => `${done} of ${all} done`,

  domain: 'Verify a domain',
  domainDone: (name: string) => `${name} is verified.`,
  domainPending: (name: string) => `${name} is waiting for DNS records.`,
  domainFailing: (name: string) =>
    `The DKIM record for ${name} is missing. Republish it.`,
  domainNone: 'Add your sending domain and publish its DNS records.',
  toDomains: 'Domains',

  key: 'Create a live API key',
  keyDone: 'Live API key created.',
  keyNone: 'Ask an owner to create a live API key.',
  toKeys: 'Keys and SMTP',

  smtp: 'SMTP credentials',
  smtpDone: 'Live SMTP credential created.',
  smtpNone: 'Optional: only needed if you send over SMTP.',
  smtpPlan: 'SMTP isn’t available on this plan. Use the API instead.',

  webhook: 'Add a webhook',
  webhookDone: 'Receiving live events.',
  webhookOff: 'Your webhook is disabled. Enable it.',
  webhookNone: 'Get notified about bounces and complaints.',
  toWebhooks: 'Webhooks',

  health: 'Sending health',
  healthGood: (messages: string, days: number) =>
    `Healthy: ${messages} emails in ${days} days.`,
  healthFew: (least: number) => `Not enough data yet (${least} messages needed).`,
  healthNone: 'No live emails sent yet.',
  toOverview: 'Overview',
  toDoctor: 'Doctor',
};
