/** Attribution lines of email clients in their languages: above a quote, directly below one line of text, and wrapped. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { replyText } from './reply-text.ts';

const QUOTE = '> Hello Ann,\n> your order is ready.\n>\n> Shop\n';
const UNQUOTED = 'Hello Ann,\n\nyour order is ready.\n\nShop\n';

/** Lines by client, one per line. `S` is a name with its address. */
const LINES: Record<string, string> = {
  gmail: `
    On Thu, Nov 26, 2026 at 10:00 AM S wrote:
    On Thu, 26 Nov 2026 at 10:00, S wrote:
    On Thu, 26 Nov 2026, 10:00 S, wrote:
    Am Do., 26. Nov. 2026 um 10:00 Uhr schrieb S:
    Le jeu. 26 nov. 2026 à 10:00, S a écrit :
    El jue, 26 nov 2026 a las 10:00, Shop (<orders@shop.example>) escribió:
    Il giorno gio 26 nov 2026 alle ore 10:00 S ha scritto:
    Em qui., 26 de nov. de 2026 às 10:00, S escreveu:
    Op do 26 nov 2026 om 10:00 schreef S:
    Den tors 26 nov. 2026 kl 10:00 skrev S:
    Den tor. 26. nov. 2026 kl. 10.00 skrev S:
    tor. 26. nov. 2026 kl. 10:00 skrev S:
    to 26. marrask. 2026 klo 10.00 Shop (orders@shop.example) kirjoitti:
    czw., 26 lis 2026 o 10:00 S napisał(a):
    čt 26. 11. 2026 v 10:00 odesílatel S napsal:
    št 26. 11. 2026 o 10:00 S napísal(a):
    чт, 26 нояб. 2026 г. в 10:00, S:
    чт, 26 лист. 2026 р. о 10:00 S пише:
    S, 26 Kas 2026 Per, 10:00 tarihinde şunu yazdı:
    Στις Πέμ 26 Νοε 2026 στις 10:00 π.μ., ο/η S έγραψε:
    ‫בתאריך יום ה׳, 26 בנוב׳ 2026 ב-10:00 מאת ‪Shop‬‏ <‪orders@shop.example‬‏>:‬
    في الخميس، ٢٦ نوفمبر ٢٠٢٦ في ١٠:٠٠ ص تمت كتابة ما يلي بواسطة ‪Shop‬‏ <‪orders@shop.example‬‏>:
    2026年11月26日(木) 10:00 S:
    S 于2026年11月26日周四 10:00写道：
    S 於 2026年11月26日 週四 上午10:00寫道：
    2026년 11월 26일 (목) 오전 10:00, S님이 작성:
    S ezt írta (időpont: 2026. nov. 26., Cs, 10:00):
    joi, 26 nov. 2026 la 10:00 S a scris:
    На чт, 26.11.2026 г. в 10:00 S написа:
    čet, 26. stu 2026. u 10:00 S napisao je:
    Vào Th 5, 26 thg 11, 2026 vào lúc 10:00 S đã viết:
    Pada tanggal Kam, 26 Nov 2026 pukul 10.00 S menulis:
    ในวันที่ พฤ. 26 พ.ย. 2026 เวลา 10:00 S เขียนว่า:
    El dj., 26 de nov. 2026, 10:00, S va escriure:`,
  apple: `
    On 26 Nov 2026, at 10:00, S wrote:
    On Nov 26, 2026, at 10:00 AM, S wrote:
    Am 26.11.2026 um 10:00 schrieb S:
    Le 26 nov. 2026 à 10:00, S a écrit :
    El 26 nov 2026, a las 10:00, S escribió:
    Il giorno 26 nov 2026, alle ore 10:00, S ha scritto:
    No dia 26/11/2026, às 10:00, S escreveu:
    Em 26 de nov. de 2026, à(s) 10:00, S escreveu:
    Op 26 nov. 2026, om 10:00 heeft S het volgende geschreven:
    26 nov. 2026 kl. 10:00 skrev S:
    Den 26. nov. 2026 kl. 10.00 skrev S:
    S kirjoitti 26.11.2026 kello 10.00:
    Wiadomość napisana przez S w dniu 26 lis 2026, o godz. 10:00:
    26. 11. 2026 v 10:00, S:
    26 нояб. 2026 г., в 10:00, S написал(а):
    26 лист. 2026 р. о 10:00 S пише:
    S şunları yazdı (26 Kas 2026 10:00):
    Στις 26 Νοε 2026, στις 10:00, ο χρήστης S έγραψε:
    ב-26 בנוב׳ 2026, בשעה 10:00, S כתב/ה:
    في ٢٦ نوفمبر ٢٠٢٦، الساعة ١٠:٠٠ ص، كتب/كتبت S:
    2026/11/26 10:00、Sのメール:
    2026年11月26日 10:00，S 写道：
    S 於 2026年11月26日 上午10:00 寫道：
    2026. 11. 26. 오전 10:00, S 작성:
    Dana 26.11.2026. u 10:00, S napisao/la je:
    26. 11. 2026 o 10:00, užívateľ S napísal:`,
  yahoo: `
    On Thursday, November 26, 2026 at 10:00:00 AM GMT+1, S wrote:
    Am Donnerstag, 26. November 2026 um 10:00:00 MEZ hat S Folgendes geschrieben:
    Le jeudi 26 novembre 2026 à 10:00:00 UTC+1, S a écrit :
    En jueves, 26 de noviembre de 2026, 10:00:00 CET, S escribió:
    Il giovedì 26 novembre 2026 alle ore 10:00:00 CET, S ha scritto:
    Em quinta-feira, 26 de novembro de 2026 às 10:00:00 WET, S escreveu:
    Op donderdag 26 november 2026 om 10:00:00 CET schreef S:
    torsdag 26 november 2026 kl. 10:00:00 CET, S skrev:
    Den torsdag den 26. november 2026 10.00.00 CET skrev S:
    torstai 26. marraskuuta 2026 klo 10.00.00 UTC+2 S kirjoitti:
    czwartek, 26 listopada 2026 10:00:00 CET, S napisał(a):
    čtvrtek 26. listopadu 2026 10:00:00 SEČ, uživatel S napsal:
    четверг, 26 ноября 2026 г., 10:00:00 GMT+3, S написал(а):
    26 Kasım 2026 Perşembe 10:00:00 GMT+3, S şunu yazdı:
    Πέμπτη 26 Νοεμβρίου 2026 10:00:00 π.μ. EET, ο χρήστης S έγραψε:
    在 2026年11月26日 星期四 上午10:00:00 [GMT+8]， S 写道：
    2026年11月26日木曜日 10:00:00 JST、S が書き込み:
    2026년 11월 26일 목요일 오전 10:00:00 GMT+9, S 님이 작성:`,
  thunderbird: `
    On 26/11/2026 10:00, Shop wrote:
    Am 26.11.2026 um 10:00 schrieb Shop:
    Am 26.11.26 um 10:00 schrieb Shop:
    Le 26/11/2026 à 10:00, Shop a écrit :
    El 26/11/2026 a las 10:00, Shop escribió:
    Il 26/11/2026 10:00, Shop ha scritto:
    Em 26/11/2026 10:00, Shop escreveu:
    Às 10:00 de 26/11/2026, Shop escreveu:
    Op 26-11-2026 om 10:00 schreef Shop:
    Den 2026-11-26 kl. 10:00, skrev Shop:
    Den 26.11.2026 kl. 10.00 skrev Shop:
    Shop kirjoitti 26.11.2026 klo 10.00:
    W dniu 26.11.2026 o 10:00, Shop pisze:
    Dne 26. 11. 26 v 10:00 Shop napsal(a):
    26.11.2026 10:00, Shop пишет:
    26.11.2026 10:00, Shop пише:
    26.11.2026 10:00 tarihinde Shop yazdı:
    Στις 26/11/2026 10:00 π.μ., ο/η Shop έγραψε:
    ב־26/11/2026 10:00, Shop כתב:
    في 26/11/2026 10:00 ص، كتب Shop:
    2026/11/26 10:00、Shop のメール:
    在 2026/11/26 10:00, Shop 写道:
    26. 11. 26. 오전 10:00에 Shop 이(가) 쓴 글:
    2026. 11. 26. 10:00 keltezéssel, Shop írta:`,
  outlook: `
    On 26/11/2026 10:00, "Shop" <orders@shop.example> wrote:
    Am 26/11/2026, 10:00 schrieb "Shop" <orders@shop.example>:
    Le 26/11/2026 10:00, « Shop » <orders@shop.example> a écrit :
    D. 26/11/2026 10.00 skrev "Shop" <orders@shop.example>:
    S skrev følgende den 26/11/2026, 10:00:
    Den 26/11/2026 10:00 skrev "Shop" <orders@shop.example> följande:
    Dnia 26/11/2026, 10:00 użytkownik „Shop” <orders@shop.example> napisał:
    26/11/2026, 10:00 пользователь "Shop" <orders@shop.example> написал:
    26/11/2026 10:00 időpontban Shop (orders@shop.example) ezt írta:
    "Shop" <orders@shop.example>, 26/11/2026 10:00 tarihinde şunu yazdı:`,
  others: `
    On November 26, 2026, S wrote:
    On Thu, Nov 26, 2026 at 10:00 AM, S wrote:
    On Nov 26, 2026 at 10:00 AM +0100, S, wrote:
    On Thursday, November 26th, 2026 at 10:00 AM, S wrote:
    On Thu, 26 Nov 2026, at 10:00 AM, S wrote:
    On 2026-11-26 10:00, S wrote:
    On 11/26/2026 10:00 AM CET S wrote:
    S hat am 26.11.2026 10:00 CET geschrieben:
    S hat am 26. November 2026 um 10:00 geschrieben:
    Op 26-11-2026 10:00 CET schreef S:
    Il 26/11/2026 10:00 CET S ha scritto:
    In data 26 novembre 2026 10:00:00 "Shop" <orders@shop.example> ha scritto:
    At 2026-11-26 10:00:00, "Shop" <orders@shop.example> wrote:
    在 2026-11-26 10:00:00，"Shop" <orders@shop.example> 写道：
    26.11.2026, 10:00, "Shop" <orders@shop.example>:
    10:00, 26 ноября 2026 г., Shop <orders@shop.example>:
    Четверг, 26 ноября 2026, 10:00 +03:00 от S:
    Thursday, 26 November 2026, 10:00 +0300 from S:
    2026-11-26 10:00 GMT+01:00 S:
    On Thursday, 26 November 2026 10:00:00 CET S wrote:
    Am 26. November 2026 10:00:00 MEZ schrieb S:
    S wrote on 26.11.2026 10:00:00:
    S schrieb am 26.11.2026 10:00:00:
    In a message dated 11/26/2026 10:00:00 AM Eastern Standard Time, orders@shop.example writes:
    On 26 November 2026 at 10:00:00, Shop (orders@shop.example) wrote:
    On Thu, 26 Nov 2026 10:00:00 +0100 orders@shop.example wrote
    ---- On Thu, 26 Nov 2026 10:00:00 +0530 S wrote ----
    ---- Am Do, 26 Nov. 2026 10:00:00 +0100 S schrieb ----
    ---- El jue, 26 nov 2026 10:00:00 +0100 S escribió ---
    ---- Le jeu., 26 nov. 2026 10:00:00 +0100 S a écrit ----
    -----"Shop" <orders@shop.example> schrieb: -----`,
};

/** Ambiguous unless quoted lines follow. */
const ONLY_ABOVE_A_QUOTE = `
    Quoting S:
    Zitat von S:
    Citando S:
    Citat från S:
    Lainaus Shop:
    S writes:
    Shop schreibt:
    Shop wrote:
    Thursday, November 26, 2026, 10:00:00 AM, you wrote:
    On Thu, 26 Nov 2026, Shop wrote:
    On Thu, Nov 26, 2026 at 10:00:00AM +0100, Shop wrote:
    Shop schreef op 2026-11-26 10:00:
    Shop писал 2026-11-26 10:00:
    2026/11/26 S
    ---- Shop wrote ----
    El Jue, 26 de Noviembre de 2026, 10:00, Shop escribió:
    Am Donnerstag, dem 26.11.2026 um 10:00 +0100 schrieb Shop:`;

const SHORT = 'Shop <orders@shop.example>';
const LONG = 'The Long Named Shop of Orders and More <orders-and-much-more@sender.shop.example>';
const linesOf = (text: string): string[] =>
  text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
const withAuthor = (line: string, author: string): string => line.replace(/\bS(?![\p{L}])|(?<=、|，)S/u, author);

/** Wrapped like Gmail: before a word, or within the brackets of an address. */
function wrapped(line: string, width: number): string {
  const lines: string[] = [];
  let current = '';
  for (const word of line.split(' ')) {
    if (current !== '' && `${current} ${word}`.length > width) {
      lines.push(current);
      current = word;
    } else current = current === '' ? word : `${current} ${word}`;
  }
  return [...lines, current].join('\n');
}

for (const [client, text] of Object.entries({ ...LINES, quoted: ONLY_ABOVE_A_QUOTE })) {
  test(`attribution lines of ${client} end the reply`, () => {
    for (const line of linesOf(text)) {
      const [short, long] = [withAuthor(line, SHORT), withAuthor(line, LONG)];
      const layouts: Record<string, [text: string, own: string]> = {
        'above a quote': [`Yes, please.\nTomorrow is fine.\n\n${short}\n\n${QUOTE}`, 'Yes, please.\nTomorrow is fine.'],
        'directly under one line': [`Ok, thanks\n${short}\n${QUOTE}`, 'Ok, thanks'],
        'directly under two lines': [`Ok, thanks\nAnn\n${short}\n\n${QUOTE}`, 'Ok, thanks\nAnn'],
        wrapped: [`Yes.\n\n${wrapped(long, 78)}\n\n${QUOTE}`, 'Yes.'],
        'wrapped before the end of an address': [
          `Yes.\n\n${wrapped(long, 78).replace(/>/, '\n>')}\n\n${QUOTE}`,
          'Yes.',
        ],
        'wrapped, directly under a line': [`Ok, thanks\n${wrapped(long, 78)}\n${QUOTE}`, 'Ok, thanks'],
        'wrapped in an address, directly under a line': [
          `Ok, thanks\n${wrapped(long, 78).replace(/>/, '\n>')}\n${QUOTE}`,
          'Ok, thanks',
        ],
        'wrapped after the start of an address': [`Yes.\n\n${long.replace('<', '<\n')}\n\n${QUOTE}`, 'Yes.'],
      };
      if (client !== 'quoted')
        layouts['above text without marks'] = [`Ok, thanks\n\n${short}\n\n${UNQUOTED}`, 'Ok, thanks'];
      if (client !== 'quoted' && short.includes('@'))
        layouts['indented under a line, above text without marks'] = [
          `Ok, thanks\n    ${short}  \n \n\n${UNQUOTED}`,
          'Ok, thanks',
        ];
      for (const [layout, [reply, own]] of Object.entries(layouts)) {
        assert.equal(replyText(reply), own, `${layout}: ${reply}`);
        assert.equal(replyText(reply.replaceAll('\n', '\r\n')), own, `${layout}, CRLF`);
      }
      assert.equal(replyText(`${short}\n${QUOTE}\nYes.\n`), 'Yes.', `a reply below ${short}`);
      assert.equal(
        replyText(`Hi,\n\n${short}\n${QUOTE}\nYes.\n> Shop\nNo.`),
        'Hi,\n\nYes.\nNo.',
        `replies around ${short}`,
      );
    }
  });
}
