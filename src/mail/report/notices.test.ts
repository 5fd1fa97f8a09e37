/**
 * Human-readable notices in the languages of servers: failures are bounces, delays are delays, and successes are ignored. Also where they
 * name the recipient.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readNotice } from '../../../test/kit/text-bounces.ts';

/** By language: subject and text of a failure notice, a delay notice, and a success notice. */
const NOTICES: Record<string, { failed: string[]; delayed?: string[]; delivered?: string[] }> = {
  English: {
    failed: ['Undeliverable: Your order', 'Your message could not be delivered to one or more recipients.'],
    delayed: [
      'Delivery delayed: Your order',
      'Your message has not been delivered yet. Attempts to deliver it will continue for 3 days.',
    ],
    delivered: [
      'Successful Mail Delivery Report',
      'Your message was successfully delivered to the destination(s) listed below.\nIf the message was delivered to mailbox you will receive no further notifications. Otherwise you may still receive notifications of mail delivery errors from other systems.',
    ],
  },
  French: {
    failed: ['Rapport de non-remise: Order', "Votre message n'a pas pu être remis à un ou plusieurs destinataires."],
    delayed: [
      'Remise différée : Votre commande',
      "Votre message n'a pas encore été remis. Le serveur continuera d'essayer.",
    ],
    delivered: ['Remis : Votre commande', 'Votre message a été remis aux destinataires suivants :'],
  },
  'French without accents': {
    failed: ['Non remis : Votre commande', 'Le message n’a pas pu etre distribue.'],
    delayed: ['Retard de distribution', 'La distribution de votre message est retardee.'],
    delivered: ['Accuse de remise', 'Votre message a ete remis avec succes a'],
  },
  'French of Orange': {
    failed: ['Echec de la distribution de votre mail', "Votre message n'a pas été remis au destinataire."],
  },
  German: {
    failed: [
      'Unzustellbar: Ihre Bestellung',
      'Ihre Nachricht konnte nicht an die folgenden Empfänger zugestellt werden:',
    ],
    delayed: [
      'Übermittlung verzögert: Ihre Bestellung',
      'Die Nachricht wurde noch nicht zugestellt. Es wird weiterhin versucht, sie zuzustellen.',
    ],
    delivered: ['Zugestellt: Ihre Bestellung', 'Ihre Nachricht wurde den folgenden Empfängern zugestellt:'],
  },
  'German of a provider': {
    failed: ['Ihre E-Mail kam zurück', 'Die Zustellung Ihrer E-Mail an den Empfänger ist fehlgeschlagen.'],
    delayed: ['Zustellung verzögert', 'Die Zustellung Ihrer E-Mail hat sich verzögert.'],
    delivered: ['Zustellbestätigung', 'Ihre E-Mail wurde erfolgreich zugestellt.'],
  },
  Spanish: {
    failed: ['No se puede entregar: Su pedido', 'Su mensaje no se ha podido entregar a los siguientes destinatarios:'],
    delayed: ['Entrega retrasada: Su pedido', 'Su mensaje todavía no se ha entregado. Se seguirá intentando.'],
    delivered: ['Entregado: Su pedido', 'Su mensaje se ha entregado a los siguientes destinatarios:'],
  },
  'Spanish with se': { failed: ['Error de entrega', 'Se ha producido un error al entregar el mensaje.'] },
  Italian: {
    failed: ['Mancato recapito: Ordine', 'Il messaggio non è stato recapitato ai seguenti destinatari:'],
    delayed: [
      'Recapito ritardato: Ordine',
      'Il recapito del messaggio è in ritardo. Verranno effettuati ulteriori tentativi.',
    ],
    delivered: ['Recapitato: Ordine', 'Il messaggio è stato recapitato ai seguenti destinatari:'],
  },
  Portuguese: {
    failed: ['Não é possível entregar: Pedido', 'A sua mensagem não foi entregue aos seguintes destinatários:'],
    delayed: ['Entrega atrasada: Pedido', 'A mensagem ainda não foi entregue. O servidor continuará tentando.'],
    delivered: ['Entregue: Pedido', 'A sua mensagem foi entregue aos seguintes destinatários:'],
  },
  Dutch: {
    failed: ['Onbestelbaar: Bestelling', 'Uw bericht kan niet worden bezorgd bij de volgende geadresseerden:'],
    delayed: ['Bezorging vertraagd: Bestelling', 'Uw bericht is nog niet bezorgd.'],
    delivered: ['Bezorgd: Bestelling', 'Uw bericht is bezorgd bij de volgende geadresseerden:'],
  },
  Swedish: {
    failed: ['Olevererbart: Beställning', 'Meddelandet kunde inte levereras till följande mottagare:'],
    delayed: ['Försenad leverans: Beställning', 'Meddelandet har ännu inte levererats.'],
    delivered: ['Levererat: Beställning', 'Meddelandet har levererats till följande mottagare:'],
  },
  Danish: {
    failed: ['Kan ikke leveres: Ordre', 'Meddelelsen kunne ikke leveres til følgende modtagere:'],
    delayed: ['Levering forsinket: Ordre', 'Meddelelsen er endnu ikke leveret.'],
    delivered: ['Leveret: Ordre', 'Meddelelsen er leveret til følgende modtagere:'],
  },
  Norwegian: {
    failed: ['Kan ikke leveres: Ordre', 'Meldingen kunne ikke leveres til følgende mottakere:'],
    delayed: ['Levering forsinket: Ordre', 'Meldingen er ennå ikke levert.'],
    delivered: ['Levert: Ordre', 'Meldingen er levert til følgende mottakere:'],
  },
  Finnish: {
    failed: ['Toimittamatta: Tilaus', 'Viestiä ei voitu toimittaa seuraaville vastaanottajille:'],
    delayed: ['Toimitus viivästynyt: Tilaus', 'Viestiä ei ole vielä toimitettu.'],
    delivered: ['Toimitettu: Tilaus', 'Viesti on toimitettu seuraaville vastaanottajille:'],
  },
  Polish: {
    failed: ['Niedostarczalne: Zamówienie', 'Wiadomość nie została dostarczona do następujących adresatów:'],
    delayed: ['Opóźnione dostarczenie: Zamówienie', 'Wiadomość jeszcze nie została dostarczona.'],
    delivered: ['Dostarczono: Zamówienie', 'Wiadomość została dostarczona do następujących adresatów:'],
  },
  Czech: {
    failed: ['Nedoručitelné: Objednávka', 'Zprávu se nepodařilo doručit následujícím příjemcům:'],
    delayed: ['Doručení zpožděno: Objednávka', 'Zpráva dosud nebyla doručena.'],
    delivered: ['Doručeno: Objednávka', 'Zpráva byla doručena následujícím příjemcům:'],
  },
  Slovak: { failed: ['Nedoručiteľné: Objednávka', 'Správu sa nepodarilo doručiť príjemcom:'] },
  Hungarian: {
    failed: ['Kézbesíthetetlen: Rendelés', 'Az üzenetet nem sikerült kézbesíteni a következő címzetteknek:'],
    delayed: ['A kézbesítés késik: Rendelés', 'Az üzenetet még nem sikerült kézbesíteni.'],
    delivered: ['Kézbesítve: Rendelés', 'Az üzenetet sikeresen kézbesítettük.'],
  },
  Romanian: {
    failed: ['Nelivrabil: Comandă', 'Mesajul nu a putut fi livrat următorilor destinatari:'],
    delayed: ['Livrare întârziată: Comandă', 'Mesajul încă nu a fost livrat.'],
    delivered: ['Livrat: Comandă', 'Mesajul a fost livrat cu succes.'],
  },
  Turkish: {
    failed: ['Teslim edilemedi: Sipariş', 'İletiniz şu alıcılara teslim edilemedi:'],
    delayed: ['Teslim gecikti: Sipariş', 'İletinizin teslimi gecikti.'],
    delivered: ['Teslim Edildi: Sipariş', 'İletiniz başarıyla teslim edildi.'],
  },
  Greek: {
    failed: ['Δεν είναι δυνατή η παράδοση: Παραγγελία', 'Το μήνυμά σας δεν παραδόθηκε στους παρακάτω παραλήπτες:'],
    delayed: ['Καθυστέρηση παράδοσης', 'Η παράδοση του μηνύματος έχει καθυστερήσει.'],
    delivered: ['Παραδόθηκε: Παραγγελία', 'Το μήνυμα παραδόθηκε με επιτυχία.'],
  },
  Russian: {
    failed: [
      'Недоставленное сообщение',
      'К сожалению, Ваше письмо не может быть доставлено одному или нескольким получателям:',
    ],
    delayed: ['Доставка отложена: Заказ', 'Сообщение ещё не доставлено. Попытки доставки будут продолжены.'],
    delivered: ['Доставлено: Заказ', 'Ваше сообщение успешно доставлено.'],
  },
  Ukrainian: {
    failed: ['Не доставлено: Замовлення', 'Не вдалося доставити повідомлення одержувачам:'],
    delayed: ['Затримка доставки', 'Повідомлення ще не доставлено.'],
    delivered: ['Доставлено: Замовлення', 'Повідомлення успішно доставлено.'],
  },
  Bulgarian: { failed: ['Недоставимо: Поръчка', 'Съобщението не може да бъде доставено.'] },
  Japanese: {
    failed: ['配信不能: ご注文', '次の受信者へのメッセージは配信できませんでした。'],
    delayed: ['配信の遅延: ご注文', 'メッセージの配信が遅れています。再送を続けています。'],
    delivered: ['配信済み: ご注文', 'メッセージは次の受信者に配信されました。'],
  },
  'Japanese of a carrier': { failed: ['メール送信エラー', 'お送りいただいたメールは宛先不明のため届きませんでした。'] },
  'simplified Chinese': {
    failed: ['退信通知', '您的邮件无法投递到以下收件人：'],
    delayed: ['邮件延迟投递通知', '您的邮件尚未投递成功，系统将继续尝试。'],
    delivered: ['已送达: 订单', '您的邮件已成功投递。'],
  },
  'traditional Chinese': { failed: ['無法傳遞: 訂單', '您的郵件無法傳遞給下列收件者。'] },
  Korean: {
    failed: ['배달되지 않음: 주문', '메시지를 다음 받는 사람에게 배달할 수 없습니다.'],
    delayed: ['배달 지연: 주문', '메시지 배달이 지연되고 있습니다.'],
    delivered: ['배달됨: 주문', '메시지가 성공적으로 배달되었습니다.'],
  },
  Hebrew: { failed: ['לא נמסר: הזמנה', 'לא ניתן למסור את ההודעה לנמענים הבאים:'] },
  Arabic: { failed: ['غير قابل للتسليم', 'تعذر تسليم رسالتك إلى المستلمين التاليين:'] },
  Thai: { failed: ['ส่งไม่สำเร็จ', 'ไม่สามารถส่งข้อความของคุณถึงผู้รับต่อไปนี้'] },
  Vietnamese: { failed: ['Không thể gửi: Đơn hàng', 'Thư của bạn không thể gửi tới những người nhận sau:'] },
  Indonesian: { failed: ['Tidak dapat terkirim', 'Pesan Anda tidak dapat dikirim ke penerima berikut:'] },
};

for (const [language, { failed, delayed, delivered }] of Object.entries(NOTICES)) {
  const [subject, text] = failed as [string, string];
  test(`a failure notice is a bounce in ${language}, by subject or text alone`, async () => {
    for (const [title, words] of [
      [subject, text],
      ['Your order', text],
      [subject, ''],
    ] as const) {
      const report = await readNotice({
        from: 'postmaster@peer.example',
        subject: title,
        text: `${words}\n\nann@peer.example\nX. 550 5.1.1\n`,
      });
      assert.ok(report.kind === 'bounce', `${title} | ${words}: ${JSON.stringify(report)}`);
      const [one] = report.recipients;
      assert.deepEqual([one!.finalRecipient, one!.action, one!.status], ['ann@peer.example', 'failed', '5.1.1']);
    }
    const wordsAlone = await readNotice({
      from: 'postmaster@peer.example',
      subject: 'Your order',
      text: `${text}\n\n<ann@peer.example>`,
    });
    assert.ok(
      wordsAlone.kind === 'bounce' && wordsAlone.recipients[0]!.action === 'failed',
      JSON.stringify(wordsAlone),
    );
  });
  if (delayed)
    test(`a delay notice is a delay in ${language}, by subject or text alone`, async () => {
      const [title, words] = delayed as [string, string];
      for (const mail of [
        { subject: title, text: words },
        { subject: 'Your order', text: words },
        { subject: title, text: '' },
      ]) {
        const report = await readNotice({
          from: 'MAILER-DAEMON@peer.example',
          ...mail,
          text: `${mail.text}\n\n<ann@peer.example>`,
        });
        assert.ok(report.kind === 'bounce', JSON.stringify(mail));
        assert.deepEqual(
          report.recipients.map(({ action }) => action),
          ['delayed'],
          JSON.stringify(mail),
        );
      }
    });
  if (delivered)
    test(`a success notice is not a bounce in ${language}, by subject or text alone`, async () => {
      const [title, words] = delivered as [string, string];
      for (const mail of [
        { subject: title, text: words },
        { subject: 'Your order', text: words },
        { subject: 'Delivery Status Notification', text: words },
        { subject: title, text: '' },
      ]) {
        const report = await readNotice({
          from: 'Mail Delivery System <mailer-daemon@peer.example>',
          ...mail,
          text: `${mail.text}\n\n<ann@peer.example>: delivery via local: delivered to mailbox`,
          isQuoting: true,
        });
        assert.equal(report.kind, 'none', JSON.stringify(mail));
      }
    });
}

/** Where servers put the recipient. */
const RECIPIENTS: Record<string, { text: string; subject?: string; fields?: string[]; recipient?: string | null }> = {
  'in the sentence, as DragonFly does, which also has it in X-Original-To': {
    text: 'There was an error delivering your mail to <ann@peer.example>.\n\nmx.peer.example [192.0.2.25] did not like our RCPT TO:\n550 5.1.1 User unknown\n\nOriginal message follows.\n\nReceived: from root (uid 0)\n\tid e0003;\n\tWed, 12 Jun 2024 08:46:42 +0900\nSubject: Hello\nTo: nekochan\nMessage-Id: <m.e0003@shop.example>\nFrom: <s@shop.example>\n',
    fields: ['X-Original-To: <ann@peer.example>'],
  },
  'in the middle of a sentence without brackets': {
    text: 'Your message to ann@peer.example was not delivered: 550 5.1.1 unknown',
  },
  'behind a label of another language': {
    text: "Le message n'a pas été remis.\n\nDestinataire : ann@peer.example\nRaison : 550 5.1.1 inconnu",
  },
  'behind a Japanese label': {
    text: 'メールを配信できませんでした。\n\n宛先：ann@peer.example\n理由：550 5.1.1 User unknown',
  },
  'in full-width brackets': { text: 'メールを配信できませんでした。\n＜ann@peer.example＞\n550 5.1.1 User unknown' },
  'in a table': { text: 'Delivery has failed.\n\n| Recipient | Reason |\n| ann@peer.example | 550 5.1.1 unknown |' },
  'in the subject alone': {
    subject: 'Delivery failed: ann@peer.example',
    text: 'The mailbox does not exist.\n550 5.1.1 unknown',
  },
  'in the reply of the server alone': {
    text: 'Delivery has failed.\n\n550 5.1.1 <ann@peer.example>: Recipient address rejected',
  },
  'after the address of the administrator': {
    text: 'Delivery has failed. For help write to postmaster@peer.example.\n\nThe address ann@peer.example is unknown.\n550 5.1.1',
  },
  'after the sender': {
    text: 'Delivery has failed.\n\nFrom: <s@shop.example>\nTo: <ann@peer.example>\n\n550 5.1.1 unknown',
  },
  nowhere: {
    text: 'Delivery has failed.\n\nThe mailbox of the recipient does not exist.\n550 5.1.1 unknown',
    recipient: null,
  },
};

for (const [
  where,
  { text, subject = 'Delivery failed', fields = [], recipient = 'ann@peer.example' },
] of Object.entries(RECIPIENTS)) {
  test(`the recipient is found ${where}`, async () => {
    const report = await readNotice({ from: 'MAILER-DAEMON <>', subject, text, fields });
    assert.ok(report.kind === 'bounce');
    assert.deepEqual(
      report.recipients.map((one) => [one.finalRecipient, one.status, one.action]),
      [[recipient, '5.1.1', 'failed']],
    );
  });
}

test('a number outside the SMTP reply codes is not a reply', async () => {
  const report = await readNotice({
    from: 'postmaster@orange.example',
    subject: 'Message non distribué',
    text: "Votre message n'a pas pu être remis :\n\nann@orange.example : Invalid recipient. OFR_416 [416]",
  });
  assert.ok(report.kind === 'bounce');
  assert.deepEqual(
    [report.recipients[0]!.smtpCode, report.recipients[0]!.finalRecipient],
    [null, 'ann@orange.example'],
  );
});

test('text before a reply without a code is part of the diagnostic', async () => {
  const report = await readNotice({
    from: 'postmaster@peer.example',
    subject: 'Rapport de non-remise: Order',
    text: "Votre message n'a pas pu être remis à un ou plusieurs destinataires.\n\na@peer.example\nL'adresse de messagerie est introuvable. 550 5.1.1",
  });
  assert.ok(report.kind === 'bounce');
  const [{ diagnostic, smtpCode, status } = assert.fail()] = report.recipients;
  assert.deepEqual(
    [diagnostic, smtpCode, status],
    ["550 5.1.1 L'adresse de messagerie est introuvable.", 550, '5.1.1'],
  );
});
