/** What is read on the page of the first steps. */
export const start = {
  title: 'First steps',
  lead: 'Send a first mail, see it arrive, then go live. The first mail stays in the sandbox: nothing leaves this machine.',

  send: 'Send one now',
  sendHere: 'Send it from here',
  sendHereHint: 'One click sends a first mail. It arrives in the sandbox inbox, and you see it here.',
  mayNotSend: 'Your role is viewer: it reads. Ask an owner of this account to make you a member.',
  byCode: 'Send it from your own code or terminal',
  makeKey: 'Fill in a real key',
  makeKeyHint: 'Makes a sandbox key named “First steps” and puts it into the examples. It cannot send live mail.',
  keyIsReal: 'A real sandbox key is filled in. It is kept in this tab only, and nobody can show it again.',
  keyName: 'First steps',
  makeCredential: 'Fill in real SMTP credentials',
  makeCredentialHint: 'Makes a sandbox credential for mail over SMTP and puts it into the two SMTP examples.',
  credentialIsReal: 'Real sandbox credentials are filled in. They are kept in this tab only.',
  ownCertificate: 'until the service has a certificate that others know',
  askOwner: 'Only owners make keys. Ask one of them for a sandbox key (Keys and SMTP), and put it in POSTRIDER_KEY.',
  examples: 'How to send it',

  arrived: 'What arrives',
  waiting: 'Waiting for the first mail…',
  waitingHint: 'It slides in here by itself.',
  onItsWay: 'On its way',
  toInbox: 'Open the inbox',
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
  account: 'Before you go live',
  accountHint: 'What this account has and still needs. It is looked up each time, never ticked off by hand.',
  service: 'The service itself',
  serviceHint: 'What the doctor of this node finds, for you as operator.',
  looking: 'Looking…',
  states: { done: 'Done', todo: 'To do', unknown: 'Cannot be known' },
  progress: (done: number, all: number) => `${done} of ${all} done`,

  domain: 'A verified domain',
  domainDone: (name: string) => `${name} is verified. Mail may be sent from it.`,
  domainPending: (name: string) => `${name} waits for its DNS records. Publish them where the domain is managed.`,
  domainFailing: (name: string) =>
    `The DNS record of ${name} is not found any more. It may still send; publish it again.`,
  domainNone: 'Live mail is sent from a domain of yours. Add it, and publish its DNS records.',
  toDomains: 'Domains',

  key: 'A live key',
  keyDone: 'There is a key for live mail.',
  keyNone: 'Your code needs a key for live mail. An owner makes one.',
  toKeys: 'Keys and SMTP',

  smtp: 'SMTP credentials',
  smtpDone: 'There is a credential for live mail over SMTP.',
  smtpNone: 'Only for software that sends over SMTP: make a live credential. With the API you need none.',
  smtpPlan: 'The plan of this account is without SMTP. The API does all that SMTP does.',

  webhook: 'A webhook',
  webhookDone: 'Your system hears what becomes of live mail.',
  webhookOff: 'There is a webhook, and it is switched off. Switch it on again.',
  webhookNone: 'Let your system hear of bounces and complaints: add a webhook for live mail.',
  toWebhooks: 'Webhooks',

  health: 'Sending health',
  healthGood: (messages: string, days: number) =>
    `${messages} live messages in ${days} days, bounces and complaints are low.`,
  healthFew: (least: number) => `Too few live messages to tell: it takes ${least} that were delivered or bounced.`,
  healthNone: 'No live mail was sent in the last days, so there is nothing to go by yet.',
  toOverview: 'Overview',
  toDoctor: 'Doctor',
};
