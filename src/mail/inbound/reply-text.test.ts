/** The author's own text in replies: what is removed, and what must be kept. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { replyText, replyTextOfHtml } from './reply-text.ts';

const OWN = 'Yes, please.\n\nTomorrow at 9: fine.';
const QUOTE = '> Shall we send it?\n> When?\n';

/** Lines that email clients write before a quote. */
const MARKS = [
  'On Fri, Nov 20, 2026 at 9:44 AM Shop <orders@shop.example> wrote:',
  'On 20 Nov 2026, at 09:44, Shop wrote:',
  'On Fri, Nov 20, 2026 at 9:44 AM Orders of the Shop\n<orders@shop.example> wrote:',
  'Am 20.11.2026 um 09:44 schrieb Shop <orders@shop.example>:',
  'Am Fr., 20. Nov. 2026 um 09:44 Uhr schrieb Shop:',
  'Le ven. 20 nov. 2026 à 09:44, Shop <orders@shop.example> a écrit :',
  'El vie, 20 nov 2026 a las 9:44, Shop (<orders@shop.example>) escribió:',
  'Il giorno ven 20 nov 2026 alle ore 09:44 Shop ha scritto:',
  'Em sex., 20 de nov. de 2026 às 09:44, Shop escreveu:',
  'Op vr 20 nov 2026 om 09:44 schreef Shop:',
  'Den fre 20 nov. 2026 kl 09:44 skrev Shop:',
  'pt., 20 lis 2026 o 09:44 Shop napisał(a):',
  'pá 20. 11. 2026 v 9:44 odesílatel Shop napsal:',
  'пт, 20 нояб. 2026 г. в 09:44, Shop <orders@shop.example>:',
  'пт, 20 лист. 2026 р. о 09:44 Shop пише:',
  '20 Kas 2026 Cum, 09:44 tarihinde Shop şunu yazdı:',
  'Shop ezt írta (2026. nov. 20., P, 9:44):',
  'vin., 20 nov. 2026 la 09:44 Shop a scris:',
  'Στις Παρ 20 Νοε 2026 στις 9:44 π.μ., ο Shop έγραψε:',
  'pe 20. marrask. 2026 klo 9.44 Shop kirjoitti:',
  '2026年11月20日(金) 9:44 Shop <orders@shop.example> のメール:',
  'Shop 于2026年11月20日周五 09:44写道：',
  '2026년 11월 20일 (금) 오전 9:44, Shop님이 작성:',
  'Vào Th 6, 20 thg 11, 2026 lúc 09:44 Shop đã viết:',
  'Pada tanggal 20 Nov 2026 09.44, Shop menulis:',
  '-----Original Message-----',
  '----- Ursprüngliche Nachricht -----',
  '-------- Message d’origine --------',
  '-----Mensaje original-----',
  '-----Исходное сообщение-----',
  'From: Shop <orders@shop.example>\nSent: Friday, 20 November 2026 09:44\nTo: Ann\nSubject: Order 17',
  '________________________________\nVon: Shop\nGesendet: Freitag, 20. November 2026\nAn: Ann\nBetreff: Bestellung',
  'De : Shop\nEnvoyé : vendredi\nÀ : Ann\nObjet : Commande',
  '差出人: Shop\n送信日時: 2026年11月20日\n宛先: Ann\n件名: 注文',
];

for (const mark of MARKS) {
  test(`a reply is found above ${mark.split('\n')[0]}`, () => {
    const above = replyText(`${OWN}\n\n${mark}\n\n${QUOTE}`);
    assert.equal(above, OWN);
    assert.equal(
      replyText(`${OWN}\r\n\r\n${mark.replaceAll('\n', '\r\n')}\r\n\r\nShall we send it?`),
      OWN,
      'without > quoting',
    );
  });
}

test('replies below a quote and between its lines are kept', () => {
  assert.equal(replyText(`On 20 Nov 2026 Shop wrote:\n${QUOTE}\nYes.\n`), 'Yes.');
  assert.equal(replyText('> Shall we?\nYes.\n> When?\nNow.'), '> Shall we?\nYes.\n> When?\nNow.');
  assert.equal(replyText(`Yes.\n\n${QUOTE}`), 'Yes.', 'a quote at the end without an attribution line');
  assert.equal(replyText(`${QUOTE}\nYes.`), 'Yes.', 'a quote at the start without an attribution line');
  assert.equal(
    replyText(`Hi,\n\nOn 20 Nov 2026, Shop wrote:\n> Shall we?\n\nYes.\n\n> When?\n\nNow.\n\n-- \nAnn`),
    'Hi,\n\nYes.\n\n\nNow.',
  );
  assert.equal(
    replyText(
      `Yes.\n\n-----Original Message-----\nFrom: Shop <orders@shop.example>\nSent: Friday\nSubject: a\n\n> Shall we?\n\nAnn`,
    ),
    'Yes.\n\nAnn',
    'marked lines below a separator',
  );
  assert.equal(
    replyText(
      `Yes.\n\nOn 20 Nov 2026, Shop wrote:\n> A line of the quote that was so long that it was broken by the client at\nits end.\n> Bye`,
    ),
    'Yes.',
    'a wrapped quoted line',
  );
  assert.equal(
    replyText(`Ok, thanks\n<orders@shop.example> wrote:\n${QUOTE}`),
    'Ok, thanks',
    'an author without a name',
  );
  assert.equal(
    replyText('On 20 Nov 2026, Shop wrote:\n> Shall we?\nYes.\n\nOn 19 Nov 2026, Bob wrote:\n> And I?\n\nYou too.'),
    'Yes.\n\nYou too.',
    'replies to two messages',
  );
});

/** The author's own text, even if it looks like a line of an email client. */
const OWN_TEXTS = [
  'Hello,\nas you wrote on 3 November 2026:\nthe price is 5 EUR. I agree.\nThanks',
  'Hello,\n\nas you wrote on 3 November 2026 at 10:30:\n\nthe price is 5 EUR. I agree.',
  'Hello,\n\nAs Bob <bob@peer.example> wrote on 3 November 2026 at 10:30:\n\nthe price is 5 EUR.',
  'You wrote on 3 November 2026:\nthe price is 5 EUR. I agree.',
  'On 3 November 2026 you wrote:\nthe price is 5 EUR. I agree.',
  'On 3 November 2026 Bob wrote:\nthe price is 5 EUR. I agree.',
  'I think Bob <bob@peer.example> wrote on 3 November 2026:\nthe price is 5 EUR.',
  'Hallo,\nwie Sie am 3. November 2026 schrieben:\nDer Preis ist 5 EUR.',
  'Hallo,\nam 3.11.2026 schrieb Herr Maier:\nDer Preis ist 5 EUR.',
  'Bonjour,\ncomme vous avez écrit le 3 novembre 2026 :\nle prix est de 5 EUR.',
  'Hola,\ncomo usted escribió el 3 de noviembre de 2026:\nel precio es 5 EUR.',
  'Ciao,\ncome lei ha scritto il 3 novembre 2026:\nil prezzo è 5 EUR.',
  'Hallo,\nzoals u schreef op 3 november 2026:\nde prijs is 5 EUR.',
  'Hej,\nsom du skrev den 3 november 2026:\npriset är 5 EUR.',
  'Привет,\nкак вы написали 3 ноября 2026:\nцена 5 EUR.',
  'Please deliver at 10:30 to Ann <ann@peer.example>:\nMain street 5',
  'Please deliver on 26.11.2026 at 10:30 to Ann <ann@peer.example>:\n\nMain street 5',
  'Bitte am 26.11.2026 um 10:30 an Ann <ann@peer.example>:\nHauptstraße 5',
  '26.11.2026, 10:30, Ann <ann@peer.example>:\nMain street 5',
  'My flight:\nFrom: Berlin\nTo: Munich\nDate: 3 May 2026\nPlease book it.',
  'Mi vuelo:\nDe: Madrid\nPara: Lima\nFecha: 3 de mayo\nGracias',
  'Please forward mail\nFrom: ann@peer.example\nTo: bob@peer.example\nThanks',
  'Subject: refund\nDate: 3 May 2026\nTotal: 5 EUR',
  'Order: 17\nFrom: ann@peer.example\nDate: 26.11.2026 10:30\nIt never came.',
  'On Monday I wrote to you twice.',
  'She wrote: come at nine.',
  'From: here to there, it is far.\nAnd more.',
  'I wrote three things:\n1 milk\n2 bread',
  'It came.\nSent with love',
  'Note:\nall 17 are gone',
  '----- 8< -----',
  '--- Prices ---\nFrom: 5 EUR\nTo: 7 EUR',
  'Times:\n2026-11-26 10:00\n26/11/2026 at 10:00 AM\nNov 26, 2026 10:00\nnone of them works',
  'On Thursday:\n\nit rained.\n\nOn Friday:\n\nit did not.',
  'The original message\nnever came.',
  'Key points\n----\n1. Speed\n\n====\n\nThat is all.',
  `A paragraph in one line. ${'It goes on and on. '.repeat(200)}It ends.`,
];

test("keeps the author's text even if it looks like a quote marker", () => {
  for (const text of OWN_TEXTS) {
    assert.equal(replyText(text), text);
    assert.equal(
      replyText(`${text}\n\nOn Thu, Nov 26, 2026 at 10:00 AM Shop <orders@shop.example> wrote:\n\n${QUOTE}`),
      text,
      'above an attribution line',
    );
  }
  for (const nothing of [null, '', ' \n', `On 20 Nov 2026 Shop wrote:\n${QUOTE}`])
    assert.equal(replyText(nothing), null);
});

test('signatures are not part of the reply', () => {
  assert.equal(replyText('Yes.\n-- \nAnn\nShop Street 17'), 'Yes.');
  assert.equal(replyText('Yes.\n--\nAnn'), 'Yes.');
  assert.equal(replyText('Yes.\n\nSent from my iPhone'), 'Yes.');
  assert.equal(replyText('Ja.\n\nGesendet von Outlook für Android\n'), 'Ja.');
  assert.equal(replyText('Yes.\n\nSent with Proton Mail secure email.\n'), 'Yes.');
  assert.equal(replyText('Oui.\n\nEnvoyé avec la messagerie sécurisée Proton Mail.'), 'Oui.');
  const list = Array.from({ length: 20 }, (_, index) => `item ${index}`).join('\n');
  assert.equal(replyText(`Prices:\n--\n${list}`), `Prices:\n--\n${list}`, 'a rule between paragraphs');
});

test('an HTML-only reply ends at the quote of its client', () => {
  const quoted = '<p>Hello Ann,</p><p>your order is ready.</p>';
  for (const html of [
    `<div dir="ltr">Yes, please.</div><br><div class="gmail_quote gmail_quote_container"><div dir="ltr" class="gmail_attr">On Thu, Nov 26, 2026 at 10:00 AM Shop &lt;<a href="mailto:orders@shop.example">orders@shop.example</a>&gt; wrote:<br></div><blockquote class="gmail_quote">${quoted}</blockquote></div>`,
    `<div>Yes, please.</div><div id="appendonsend"></div><hr><div id="divRplyFwdMsg" dir="ltr"><b>From:</b> Shop<br><b>Sent:</b> Thursday<br></div>${quoted}`,
    `<div>Yes, please.</div><span id="OLK_SRC_BODY_SECTION">${quoted}</span>`,
    `<div>Yes, please.</div><div id="yahoo_quoted_1" class="yahoo_quoted"><div>Le jeudi, Shop a dit :</div>${quoted}</div>`,
    `<p>Yes, please.</p><div class="moz-cite-prefix">On 26/11/2026 10:00, Shop wrote:<br></div><blockquote type="cite">${quoted}</blockquote>`,
    `<div>Yes, please.</div><div class="zmail_extra"><blockquote>${quoted}</blockquote></div>`,
    `<div>Yes, please.</div><div class="protonmail_quote">Someone:<blockquote>${quoted}</blockquote></div>`,
    `<div>Yes, please.</div><div name="messageReplySection">${quoted}</div>`,
    `<div>Yes, please.</div><div style="border:none;border-top:solid #E1E1E1 1.0pt;padding:3.0pt 0cm 0cm 0cm"><p class="MsoNormal"><b>Von:</b> Shop &lt;orders@shop.example&gt; <br><b>Gesendet:</b> Donnerstag, 26. November 2026 10:00<br><b>An:</b> Ann<br><b>Betreff:</b> Bestellung</p></div>${quoted}`,
    `<div>Yes, please.</div><div><br><blockquote type="cite">${quoted}</blockquote></div>`,
  ])
    assert.equal(replyTextOfHtml(html), 'Yes, please.', html);
  assert.equal(
    replyTextOfHtml(
      '<div class="gmail_quote">On 26 Nov 2026, Shop wrote:<blockquote>Shall we?</blockquote></div><div>Yes.</div>',
    ),
    'Yes.',
    'below the quote',
  );
  assert.equal(replyTextOfHtml('<p class="quote">Yes.</p>'), 'Yes.');
  const indented =
    '<div>My address:</div><blockquote style="margin:0 0 0 40px;border:none;padding:0px"><div>Main street 5</div></blockquote>';
  assert.match(
    replyTextOfHtml(indented) ?? '',
    /^My address:\s+Main street 5$/,
    'indented text in Gmail is not a quote',
  );
});

test('takes linear time for repeated patterns', () => {
  const timeOf = (count: number): number => {
    const texts = ['On 1 wrote ', '>', '\n', '-', 'From: a\n', ' wrote:', 'schrieb 1 '].map((piece) =>
      piece.repeat(count),
    );
    const began = performance.now();
    for (const text of texts) replyText(text);
    return performance.now() - began;
  };
  timeOf(1_000);
  const [short, long] = [timeOf(2_000), timeOf(20_000)];
  assert.ok(long < 100 * (short + 5), `${short} ms, ${long} ms`);
});

test('lines of repeated characters are read in linear time', () => {
  const repeat = (piece: string): string => piece.repeat(900 / piece.length);
  const lines = [
    `${repeat('-')}x`,
    `1 ${repeat('-')}x:`,
    `1${repeat('[')}`,
    `1 ${repeat('[a@')}`,
    `1 a@b.de ${repeat(': ')}x:`,
    `1${repeat('[')} a@b.de wrote:`,
  ];
  const start = process.cpuUsage();
  for (const line of lines) replyText(`${line}\n`.repeat(50));
  const { user, system } = process.cpuUsage(start);
  // Half a second on an idle machine. Quadratic time per line would take half a minute.
  assert.ok(user + system < 6_000_000, `${user + system} µs`);
});
