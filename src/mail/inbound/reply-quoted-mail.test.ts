/** What email clients insert above a message that they quote without `>`: blocks of header fields, separators, and footers. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { replyText } from './reply-text.ts';

const OWN = 'Yes, please.\nTomorrow is fine.';
const MAIL = 'Hello Ann,\n\nyour order is ready.\n\nShop\n';
const S = '"Shop" <orders@shop.example>';

/** Blocks by client and language, each between blank lines. */
const BLOCKS = `
From: ${S}
Sent: Thursday, November 26, 2026 10:00 AM
To: Ann <ann@peer.example>
Subject: Your order

Von: Shop
Gesendet: Donnerstag, 26. November 2026 10:00
An: Ann
Betreff: Ihre Bestellung

De : ${S}
Envoyé : jeudi 26 novembre 2026 10:00
À : Ann
Objet : Votre commande

De: ${S}
Enviado: jueves, 26 de noviembre de 2026 10:00
Para: Ann
Asunto: Su pedido

Da: ${S}
Inviato: giovedì 26 novembre 2026 10:00
A: Ann
Oggetto: Ordine

De: ${S}
Enviada em: quinta-feira, 26 de novembro de 2026 10:00
Para: Ann
Assunto: Pedido

Van: ${S}
Verzonden: donderdag 26 november 2026 10:00
Aan: Ann
Onderwerp: Bestelling

Från: ${S}
Skickat: den 26 november 2026 10:00
Till: Ann
Ämne: Beställning

Fra: ${S}
Sendt: 26. november 2026 10:00
Til: Ann
Emne: Ordre

Lähettäjä: ${S}
Lähetetty: torstai 26. marraskuuta 2026 10.00
Vastaanottaja: Ann
Aihe: Tilaus

Od: ${S}
Wysłano: czwartek, 26 listopada 2026 10:00
Do: Ann
Temat: Zamówienie

Od: ${S}
Odesláno: čtvrtek 26. listopadu 2026 10:00
Komu: Ann
Předmět: Objednávka

От: ${S}
Отправлено: 26 ноября 2026 г. 10:00
Кому: Ann
Тема: Заказ

Від: ${S}
Надіслано: 26 листопада 2026 р. 10:00
Кому: Ann
Тема: Замовлення

Kimden: ${S}
Gönderildi: 26 Kasım 2026 Perşembe 10:00
Kime: Ann
Konu: Sipariş

Από: ${S}
Στάλθηκε: Πέμπτη, 26 Νοεμβρίου 2026 10:00 πμ
Προς: Ann
Θέμα: Παραγγελία

מאת: ${S}
נשלח: יום חמישי 26 נובמבר 2026 10:00
אל: Ann
נושא: הזמנה

من: ${S}
تم الإرسال: 26 نوفمبر 2026 10:00
إلى: Ann
الموضوع: الطلب

差出人: ${S}
送信日時: 2026年11月26日 10:00
宛先: Ann
件名: 注文

发件人: ${S}
发送时间: 2026年11月26日 10:00
收件人: Ann
主题: 订单

寄件者: ${S}
寄件日期: 2026年11月26日 上午 10:00
收件者: Ann
主旨: 訂單

보낸 사람: ${S}
보낸 날짜: 2026년 11월 26일 목요일 오전 10:00
받는 사람: Ann
제목: 주문

Feladó: ${S}
Elküldve: 2026. november 26. 10:00
Címzett: Ann
Tárgy: Rendelés

Sent: Thursday, November 26, 2026 at 10:00 AM
From: ${S}
To: ann@mail.example
Subject: Your order

Gesendet: Donnerstag, 26. November 2026 um 10:00 Uhr
Von: ${S}
An: ann@mail.example
Betreff: Ihre Bestellung

Envoyé: jeudi 26 novembre 2026 à 10:00
De: ${S}
À: ann@mail.example
Objet: Votre commande

Enviado: jueves 26 de noviembre de 2026 a las 10:00
De: ${S}
Para: ann@mail.example
Asunto: Su pedido

Inviato: giovedì 26 novembre 2026 alle ore 10:00
Da: ${S}
A: ann@mail.example
Oggetto: Ordine

envoyé : 26 novembre 2026 à 10:00
de : Shop <orders@shop.example>
à : ann@mail.example
objet : Votre commande

Message du 26/11/26 10:00
De : ${S}
A : ann@mail.example
Copie à :
Objet : Votre commande

----Messaggio originale----
Da: orders@shop.example
Data: 26-nov-2026 10.00
A: <ann@mail.example>
Ogg: Ordine

----- Mail original -----
De: ${S}
À: "Ann" <ann@mail.example>
Envoyé: Jeudi 26 Novembre 2026 10:00:00
Objet: Commande

-----Original-Nachricht-----
Betreff: Ihre Bestellung
Datum: 2026-11-26T10:00:00+0100
Von: ${S}
An: "ann@mail.example" <ann@mail.example>

-------- Original message --------
From: Shop <orders@shop.example>
Date: 26/11/2026 10:00 (GMT+01:00)
To: ann@mail.example
Subject: Your order

-------- Message d'origine --------
De : Shop <orders@shop.example>
Date : 26/11/2026 10:00 (GMT+01:00)
À : ann@mail.example Objet : Votre commande

-------- Oprindelig besked --------
Fra: Shop <orders@shop.example>
Dato: 26.11.2026 10.00 (GMT+01:00)
Til: ann@mail.example
Emne: Ordre

------ Original Message ------
From ${S}
To ann@mail.example
Date 26/11/2026 10:00:00
Subject Your order

------------------&nbsp;原始邮件&nbsp;------------------
发件人:&nbsp;${S};
发送时间:&nbsp;2026年11月26日(星期四) 上午10:00
收件人:&nbsp;"Ann"<ann@mail.example>;
主题:&nbsp;订单

------------------ Original ------------------
From: ${S};
Date: Thu, Nov 26, 2026 10:00 AM
To: "Ann"<ann@mail.example>;
Subject: Order

---- Replied Message ----
| From | Shop<orders@shop.example> |
| Date | 11/26/2026 10:00 |
| To | ann@mail.example<ann@mail.example> |
| Subject | Order |

---- 回复的原邮件 ----
| 发件人 | Shop<orders@shop.example> |
| 日期 | 2026年11月26日 10:00 |
| 收件人 | ann@mail.example |
| 主题 | 订单 |

----- Original Message -----
From: Shop <orders@shop.example>
To: ann@mail.example
Date: 2026/11/26, Thu 10:00
Subject: Order

________________________________
*From:* Shop [mailto:orders@shop.example]
*Sent:* Thursday, November 26, 2026 10:00 AM
*To:* ann@mail.example
*Subject:* Your order

________________________________
Von: Shop <orders@shop.example<mailto:orders@shop.example>>
Gesendet: Donnerstag, November 26, 2026 10:00:00 AM
An: Ann <ann@mail.example<mailto:ann@mail.example>>
Cc: Bob <bob@mail.example>;
Eve <eve@mail.example>
Betreff: Ihre Bestellung

From: The Long Name of a Shop
<orders@shop.example>
Sent: Thursday, November 26, 2026 10:00 AM
To: Ann <ann@peer.example>
Subject: Your order

-----"Shop" <orders@shop.example> wrote: -----
To: ann@mail.example
From: "Shop" <orders@shop.example>
Date: 11/26/2026 10:00AM
Subject: Order

From:        Shop/Sales/Shop@Shop
To:        ann@mail.example
Date:        26.11.2026 10:00
Subject:        Order

   De : Shop <orders@shop.example>
 À : Ann <ann@mail.example>
 Envoyé le : Jeudi 26 novembre 2026 10h00
 Objet : Re: Votre commande

----- Forwarded Message ----- From: Shop <orders@shop.example>To: "ann@mail.example" <ann@mail.example>Sent: Thursday, November 26, 2026

---------- Forwarded message ---------
From: Shop <orders@shop.example>
Date: Thu, Nov 26, 2026 at 10:00 AM
Subject: Your order
To: <ann@mail.example>

Begin forwarded message:

From: Shop <orders@shop.example>
Subject: Your order
Date: 26 November 2026 at 10:00:00 CET
To: ann@mail.example

-------- Weitergeleitete Nachricht --------
Betreff: 	Ihre Bestellung
Datum: 	Thu, 26 Nov 2026 10:00:00 +0100
Von: 	Shop <orders@shop.example>
An: 	ann@mail.example`;

/** The blank line inside Apple's block belongs to the block. */
const blocks = BLOCKS.trim().split(/\n\n(?!From: Shop <orders@shop.example>\nSubject)/);

for (const block of blocks) {
  test(`a reply is found above ${block.split('\n').slice(0, 2).join(' ')}`, () => {
    for (const above of [
      `${OWN}\n\n`,
      `${OWN}\n`,
      `${OWN}\n\nGet Outlook for iOS<https://aka.ms/o0ukef>\n________________________________\n`,
    ]) {
      assert.equal(replyText(`${above}${block}\n\n${MAIL}`), OWN);
      assert.equal(replyText(`${above}${block}\n\n${MAIL}`.replaceAll('\n', '\r\n')), OWN);
    }
    assert.equal(replyText(`Ok\n${block}\n${MAIL}`), 'Ok', 'directly above');
  });
}

const FOOTERS = `
Sent from my iPhone
Sent from my Wiko RIDGE FAB 4G
Sent from my Verizon Wireless BlackBerry
Sent from Yahoo Mail on Android
Sent from Mail for Windows
Sent from Outlook for Android<https://aka.ms/AAb9ysg>
Sent via Superhuman ( https://sprh.mn/?vip=ann@mail.example )
Sent with [Proton Mail](https://proton.me/mail/home) secure email.
Get Outlook for iOS<https://aka.ms/o0ukef>
Get BlueMail for Android
Outlook für iOS beziehen<https://aka.ms/o0ukef>
Gesendet mit der GMX Mail App
Gesendet mit der Telekom Mail App
Diese Nachricht wurde von meinem Android-Gerät mit K-9 Mail gesendet.
Von meinem iPhone gesendet
Von meinem/meiner Galaxy gesendet
Envoyé de mon iPhone
Envoyé à partir de Outlook pour iOS<https://aka.ms/o0ukef>
Télécharger Outlook pour Android<https://aka.ms/AAb9ysg>
Envoyé depuis l'application Mail Orange
Provenance : Courrier pour Windows
Obtener Outlook para iOS<https://aka.ms/o0ukef>
Enviado desde mi iPhone
Enviado desde mi dispositivo Galaxy
Enviado do meu iPhone
Obter o Outlook para iOS<https://aka.ms/o0ukef>
Inviato da iPhone
Inviato dal mio dispositivo Galaxy
Scarica Outlook per iOS<https://aka.ms/o0ukef>
Verstuurd vanaf mijn iPhone
Verzonden vanuit Outlook voor iOS<https://aka.ms/o0ukef>
Skickat från min iPhone
Hämta Outlook för iOS<https://aka.ms/o0ukef>
Sendt fra min iPhone
Hent Outlook til iOS<https://aka.ms/o0ukef>
Lähetetty iPhonesta
Wysłane z iPhone'a
Pobierz program Outlook dla systemu iOS<https://aka.ms/o0ukef>
Odesláno z iPhonu
Отправлено с iPhone
Отправлено из мобильной Почты Mail
Скачать Outlook для iOS<https://aka.ms/o0ukef>
Надіслано з iPhone
iPhone'umdan gönderildi
iOS için Outlook'u edinin<https://aka.ms/o0ukef>
נשלח מה-iPhone שלי
أُرسلت من الـ iPhone
iPhoneから送信
发自我的iPhone
從我的iPhone傳送
나의 iPhone에서 보냄`;

test('email client footers are not part of the reply', () => {
  for (const footer of FOOTERS.trim().split('\n')) {
    assert.equal(replyText(`${OWN}\n\n${footer}\n`), OWN, footer);
    assert.equal(replyText(`${OWN}\n\n${footer}\n\nOn 26 Nov 2026, at 10:00, ${S} wrote:\n\n> Hello\n`), OWN, footer);
  }
  for (const sentence of [
    'Sent from my desk, which is easier than my mobile phone.',
    'Sent from my heart',
    'Sent with love',
    'Get the phone, please!',
    'Enviado desde mi casa',
    'Gesendet am Montag, von Hand',
    'We use Outlook for iOS here',
  ])
    assert.equal(replyText(`Hello\n\n${sentence}`), `Hello\n\n${sentence}`);
});
