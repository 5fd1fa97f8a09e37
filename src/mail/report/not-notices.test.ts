/** Messages that only look like delivery notices: automatic replies, challenges, tickets, and forwarded bounces. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readNotice } from '../../../test/kit/text-bounces.ts';
import { readReport } from './report.ts';

/** Automatic or personal messages that quote server replies: subject and text. */
const NOT_BOUNCES: Record<string, [subject: string, text: string]> = {
  'the address is not monitored': [
    'Your message',
    'This address is not monitored. If you write to ann again you may see 550 5.1.1 User unknown. Use the contact form.',
  ],
  'the person has left': [
    'Re: Your order',
    'Ann Smith no longer works here. Please write to bob@peer.example. From 1 December mail to ann@peer.example will be answered with a 550 user unknown.',
  ],
  'the person has left, and mail will be refused': [
    'Your message',
    'Ann has left the company.\nFuture messages will be rejected with: 550 5.1.1 User unknown\nPlease write to Bob.',
  ],
  'the person has left, and nothing is forwarded': [
    'Your message',
    'Ann has left the company. Your message was not forwarded. Please write to bob@peer.example.',
  ],
  'the person has left, in German': [
    'Ihre Nachricht',
    'Frau Ann ist nicht mehr im Unternehmen tätig. Ihre Nachricht wurde nicht weitergeleitet. Bitte wenden Sie sich an info@peer.example.',
  ],
  'the person has left, in French': [
    'Votre message',
    "Ann Martin a quitté la société. Votre message n'a pas été transmis. Merci d'écrire à bob@peer.example.",
  ],
  'on vacation': ['Automatic reply: Your order', 'I am on vacation until Monday. In urgent cases call 550 1234.'],
  'on vacation, without a word in the subject': [
    'Re: Your order',
    'I am out of the office until Monday. If your message cannot be delivered to my deputy, you will get 550 5.1.1 back.',
  ],
  'on vacation, in German': [
    'Re: Ihre Bestellung',
    'Ich bin derzeit nicht im Büro. Falls Ihre Nachricht nicht zugestellt werden kann, rufen Sie an.',
  ],
  'on vacation, in French': [
    'Re: Votre commande',
    "Je suis actuellement absent. Si votre message n'a pas pu être remis, appelez-nous.",
  ],
  'on vacation, in Spanish': ['Re: Su pedido', 'Estoy fuera de la oficina. Si su mensaje no se puede entregar, llame.'],
  'a ticket': [
    '[#4711] Your request',
    'We received your request. If our answer could not be delivered, see the portal.',
  ],
  'a ticket about a bounce': [
    '[#4712] Re: Your order',
    'We received your request about "550 5.1.1 User unknown" and will answer soon.',
  ],
  'a challenge': [
    'Please confirm your message',
    'Your message will not be delivered until you confirm that you are not a robot.',
  ],
  'a challenge in its text alone': [
    'Your order',
    'Please confirm your message by a click. Until then it has not been delivered to ann@peer.example.',
  ],
  'a quarantine': [
    'Message in quarantine',
    'Your message to ann@peer.example is held in quarantine until its recipient releases it.',
  ],
  'a moderated list': [
    'Your message to staff',
    'Your mail to staff@peer.example is being held until the list moderator can review it for approval.',
  ],
  'a read receipt': ['Read: Your order', 'Your message to ann@peer.example was read on Monday, 23 November 2026.'],
  'a message that was deleted unread': [
    'Not read: Your order',
    'Your message to ann@peer.example was deleted without being read on Monday.',
  ],
  'an acknowledgement': [
    'Thank you for your message',
    'We have your message. If you see an error such as "550 5.7.1", write to help@peer.example.',
  ],
};

const SENDERS: Record<string, string> = {
  'a mailer daemon': 'Mail Delivery System <mailer-daemon@peer.example>',
  postmaster: 'postmaster@peer.example',
  'a no-reply address': 'no-reply@peer.example',
  'a person': 'Ann <ann@peer.example>',
};

for (const [what, [subject, text]] of Object.entries(NOT_BOUNCES)) {
  test(`not a bounce: ${what}`, async () => {
    for (const from of Object.values(SENDERS)) {
      for (const fields of [
        [],
        ['In-Reply-To: <m@shop.example>'],
        ['Auto-Submitted: auto-replied', 'In-Reply-To: <m@shop.example>'],
      ]) {
        for (const isQuoting of [false, true]) {
          const report = await readNotice({ from, subject, text, fields, isQuoting });
          assert.equal(report.kind, 'none', `${from} ${fields} ${isQuoting}: ${JSON.stringify(report)}`);
        }
      }
    }
  });
}

test('a bounce that a person forwards or replies to is not a bounce', async () => {
  const bounce = 'Your message could not be delivered.\n\n<ann@peer.example>: 550 5.1.1 User unknown\n';
  const fields = 'Final-Recipient: rfc822; ann@peer.example\nAction: failed\nStatus: 5.1.1\n';
  for (const mark of ['Fwd', 'WG', 'TR', 'RV', 'Re', 'AW', 'Odp']) {
    const from = 'Bob <bob@peer.example>';
    const subject = `${mark}: Undelivered Mail Returned to Sender`;
    assert.equal((await readNotice({ from, subject, text: `Look at this.\n\n${bounce}` })).kind, 'none');
    assert.equal((await readNotice({ from, subject, text: `Look at this.\n\n${bounce}\n${fields}` })).kind, 'none');
    const parts = [
      `From: ${from}`,
      `Subject: ${subject}`,
      'MIME-Version: 1.0',
      'Content-Type: multipart/mixed; boundary=b',
      '',
      '--b',
      'Content-Type: text/plain',
      '',
      bounce,
      '--b',
      'Content-Type: message/delivery-status',
      '',
      'Reporting-MTA: dns; mx.example',
      '',
      fields,
      '--b--',
      '',
    ].join('\r\n');
    assert.equal((await readReport(Buffer.from(parts.replace(/\r?\n/g, '\r\n')))).kind, 'none', mark);
  }
});

test('a read receipt is never a bounce', async () => {
  const mail = [
    'From: postmaster@peer.example',
    'Subject: Undeliverable: Your order',
    'MIME-Version: 1.0',
    'Content-Type: multipart/report; report-type=disposition-notification; boundary=b',
    '',
    '--b',
    '',
    'Your message could not be delivered to ann@peer.example.',
    '--b',
    'Content-Type: message/disposition-notification',
    '',
    'Final-Recipient: rfc822; ann@peer.example',
    'Disposition: automatic-action/MDN-sent-automatically; deleted',
    '',
    '--b--',
    '',
  ].join('\r\n');
  assert.deepEqual(await readReport(Buffer.from(mail)), { kind: 'none', why: 'auto-reply' });
});
