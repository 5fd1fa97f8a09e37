/** What is left of replies of many programs and languages. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { replyText } from './reply-text.ts';

const OWN = 'Yes, please.\n\nTomorrow at 9: fine.';
const QUOTE = '> Shall we send it?\n> When?\n';

/** Lines that programs write in front of a quote. */
const MARKS = [
  ...['On Fri, Nov 20, 2026 at 9:44 AM Shop <orders@shop.example> wrote:', 'On 20 Nov 2026, at 09:44, Shop wrote:'],
  ...['On Fri, Nov 20, 2026 at 9:44 AM Orders of the Shop\n<orders@shop.example> wrote:'],
  ...['Am 20.11.2026 um 09:44 schrieb Shop <orders@shop.example>:', 'Am Fr., 20. Nov. 2026 um 09:44 Uhr schrieb Shop:'],
  ...[
    'Le ven. 20 nov. 2026 à 09:44, Shop <orders@shop.example> a écrit :',
    'El vie, 20 nov 2026 a las 9:44, Shop (<orders@shop.example>) escribió:',
  ],
  ...[
    'Il giorno ven 20 nov 2026 alle ore 09:44 Shop ha scritto:',
    'Em sex., 20 de nov. de 2026 às 09:44, Shop escreveu:',
  ],
  ...[
    'Op vr 20 nov 2026 om 09:44 schreef Shop:',
    'Den fre 20 nov. 2026 kl 09:44 skrev Shop:',
    'pt., 20 lis 2026 o 09:44 Shop napisał(a):',
  ],
  ...['pá 20. 11. 2026 v 9:44 odesílatel Shop napsal:', 'пт, 20 нояб. 2026 г. в 09:44, Shop <orders@shop.example>:'],
  ...[
    'пт, 20 лист. 2026 р. о 09:44 Shop пише:',
    '20 Kas 2026 Cum, 09:44 tarihinde Shop şunu yazdı:',
    'Shop ezt írta (2026. nov. 20., P, 9:44):',
  ],
  ...[
    'vin., 20 nov. 2026 la 09:44 Shop a scris:',
    'Στις Παρ 20 Νοε 2026 στις 9:44 π.μ., ο Shop έγραψε:',
    'pe 20. marrask. 2026 klo 9.44 Shop kirjoitti:',
  ],
  ...[
    '2026年11月20日(金) 9:44 Shop <orders@shop.example> のメール:',
    'Shop 于2026年11月20日周五 09:44写道：',
    '2026년 11월 20일 (금) 오전 9:44, Shop님이 작성:',
  ],
  ...['Vào Th 6, 20 thg 11, 2026 lúc 09:44 Shop đã viết:', 'Pada tanggal 20 Nov 2026 09.44, Shop menulis:'],
  ...[
    '-----Original Message-----',
    '----- Ursprüngliche Nachricht -----',
    '-------- Message d’origine --------',
    '-----Mensaje original-----',
    '-----Исходное сообщение-----',
  ],
  ...['From: Shop <orders@shop.example>\nSent: Friday, 20 November 2026 09:44\nTo: Ann\nSubject: Order 17'],
  ...[
    '________________________________\nVon: Shop\nGesendet: Freitag, 20. November 2026\nAn: Ann\nBetreff: Bestellung',
  ],
  ...[
    'De : Shop\nEnvoyé : vendredi\nÀ : Ann\nObjet : Commande',
    '差出人: Shop\n送信日時: 2026年11月20日\n宛先: Ann\n件名: 注文',
  ],
];

for (const mark of MARKS) {
  test(`a reply above ${mark.split('\n')[0]}`, () => {
    const above = replyText(`${OWN}\n\n${mark}\n\n${QUOTE}`);
    assert.equal(above, OWN);
    assert.equal(
      replyText(`${OWN}\r\n\r\n${mark.replaceAll('\n', '\r\n')}\r\n\r\nShall we send it?`),
      OWN,
      'not quoted by >',
    );
  });
}

test('an answer below the quote, or within it, is what is not quoted', () => {
  assert.equal(replyText(`On 20 Nov 2026 Shop wrote:\n${QUOTE}\nYes.\n`), 'Yes.');
  assert.equal(replyText('> Shall we?\nYes.\n> When?\nNow.'), '> Shall we?\nYes.\n> When?\nNow.');
  assert.equal(replyText(`Yes.\n\n${QUOTE}`), 'Yes.', 'a quote at the end without a mark');
});

test('signatures go, and what looks like a mark stays', () => {
  assert.equal(replyText('Yes.\n-- \nAnn\nShop Street 17'), 'Yes.');
  assert.equal(replyText('Yes.\n\nSent from my iPhone'), 'Yes.');
  assert.equal(replyText('Ja.\n\nGesendet von Outlook für Android\n'), 'Ja.');
  assert.equal(replyText('Yes.\n\nSent with Proton Mail secure email.\n'), 'Yes.');
  assert.equal(replyText('Oui.\n\nEnvoyé avec la messagerie sécurisée Proton Mail.'), 'Oui.');
  for (const text of [
    ...[
      'On Monday I wrote to you twice.',
      'She wrote: come at nine.',
      'From: here to there, it is far.\nAnd more.',
      'I wrote three things:\n1 milk\n2 bread',
    ],
    ...['It came.\nSent with love', 'Note:\nall 17 are gone', '----- 8< -----'],
  ])
    assert.equal(replyText(text), text);
  for (const nothing of [null, '', ' \n', `On 20 Nov 2026 Shop wrote:\n${QUOTE}`])
    assert.equal(replyText(nothing), null);
});

test('its time does not grow with what is repeated', () => {
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
