/**
 * The words that email clients put around quoted text, in the languages they are translated to: attribution lines ("On … wrote:"),
 * separators ("Original Message"), labels of header fields ("From:"), and footers ("Sent from my iPhone"). Data only; `attribution.ts`,
 * `quoted-header.ts`, and `reply-text.ts` interpret them. Lists are separated by `|` and line breaks.
 */

/** Returns the trimmed items of a list. */
export const wordList = (text: string): string[] =>
  text
    .split(/[|\n]/)
    .map((word) => word.trim())
    .filter((word) => word !== '');

/** "wrote" in attribution lines. Alphabetic words match as whole words, those of Asian scripts anywhere. */
export const WROTE = wordList(`
  wrote | writes
  schrieb | schreibt | geschrieben
  a écrit | a ecrit
  escribió | escribio | ha escrito | va escriure | ha escrit | escribiu | escreveu | escreve | idatzi zuen
  ha scritto | scrive
  schreef | schrijft | heeft geschreven | geschreven
  skrev | skriver | skrifaði | kirjoitti | kirjutas
  napisał | napisała | napisał(a) | napisał/a | napisane | napisana przez | pisze | nadesłał
  napsal | napsala | napsal(a) | napsal/a | píše | napísal | napísala | napísal(a) | napísal/a
  написал | написала | написал(а) | написал/а | пишет | писал | писала | писал(а)
  написав | написав(-ла) | написав(ла) | написала | пише | писав | напісаў | написа | је написао | написао/ла
  yazdı | şunu yazdı | şunları yazdı | yazmış
  έγραψε | έγραψε/αν | írta | a scris | je napisao | je napisala | je napisao/la | napisao je | napisao/la je
  je napisal | je napisal/a | napisal-a | rašė | parašė | rakstīja | đã viết | menulis | menulis
  כתב | כתבה | כתב/ה | כתב(ה) | كتب | كتبت | كتب/كتبت | تمت كتابة | نوشت
  のメール | のメッセージ | 書きました | 書き込み | 写道 | 寫道 | 写到 | 撰写 | 撰寫 | 写了 | 작성 | 쓴 글 | เขียนว่า | เขียนเมื่อ | เขียน | ने लिखा
`);

/** Words that open an attribution line, in the case that clients use. */
export const OPENERS = wordList(`
  On | At | In a message dated | Am | Le | El | En | El dia | A las | Em | No dia | Às | À | Il | Il giorno | In data | Op | Op datum
  Den | D. | Kl. | På | Þann | W dniu | Dnia | Wiadomość napisana przez | Dne | Dňa | Dana | Datuma | Na | Pe | Pe data de | În | La
  В | У | На | Στις | Την | Στις/Την | Vào | Vào lúc | Pada | Pada tanggal | เมื่อ | ใน | В сообщении от | Ar | Data
  בתאריך | ב־ | ב- | ביום | في | بتاريخ | در | Tarih
  在 | 于 | 於 | 自
`);

/** Words that only name the author of a quote ("Quoting Shop <orders@shop.example>:"). */
export const QUOTING = wordList(`
  Quoting | Quoting from | Zitat von | Zitiere | Citando a | Citando | Citazione di | Citat från | Citat fra | Citeren | Citaat van
  Cytowanie | Cytując | Cituji | Citace | Lainaus | Lainaan | Цитирование | Цитирую | Цитата | Citation de | Idézet | Alıntı
`);

/** Openers of lines without a verb: "בתאריך … מאת Shop <orders@shop.example>:". */
export const OPENERS_WITHOUT_VERB = wordList('בתאריך');

/** Conjunctions that open sentences of the author: "As you wrote on 3 November:". */
export const CONJUNCTIONS = wordList(`
  as | like | what | that | because | wie | was | dass | comme | ce que | como | según | conforme | come | quello che | zoals | wat | som
  kuten | jak | co | jako | ako | как | то, что | як | όπως | כמו | كما | gibi
`);

/** Subjects of such sentences, next to the verb. Excluded are those that are also names (Ben, Ty) or words of another language (on, je). */
export const PRONOUNS = wordList(`
  you | he | she | they | we | I | who | er | sie | Sie | ich | wir | ihr | il | elle | tu | vous | nous | usted | ella | él | ellos | yo | tú
  você | ele | ela | eu | lei | lui | loro | hij | zij | ze | ik | jij | du | han | hun | hon | jeg | jag | hän | sinä | pan | pani | ona
  вы | он | она | ты | я | мы | він | вона | ви | ти | siz | εσείς
`);

/** Text between dashes above a quoted or forwarded mail. */
export const SEPARATORS = wordList(`
  original message | original | original email | original mail | original e-mail | reply message | replied message | forwarded message
  forwarded mail | forwarded email | reply above this line | please reply above this line | quoted message
  ursprüngliche nachricht | originalnachricht | original-nachricht | original nachricht | originalmeldung | weitergeleitete nachricht
  urspr. nachricht | ursprüngliche mail | antwort nachricht | ursprüngliche e-mail | weitergeleitete mail | weitergeleitete e-mail
  message d'origine | message original | message initial | message transféré | message transmis | mail original | courriel original
  message réexpédié | e-mail d'origine | courrier original | mail transféré | message source
  mensaje original | mensaje reenviado | correo original | missatge original | missatge reenviat | mensaxe orixinal
  messaggio originale | messaggio inoltrato | messaggio di origine | email originale | mail originale
  mensagem original | mensagem encaminhada | mensagem reencaminhada | e-mail original
  oorspronkelijk bericht | origineel bericht | doorgestuurd bericht | oorspronkelijke e-mail | doorgestuurde bericht
  ursprungligt meddelande | originalmeddelande | vidarebefordrat meddelande | vidarebefordrat mejl | ursprungligt mejl
  oprindelig meddelelse | oprindelig besked | oprindelig mail | original meddelelse | videresendt meddelelse | videresendt besked
  opprinnelig melding | original melding | originalmelding | videresendt melding | opprinnelig e-post | upprunaleg skilaboð
  alkuperäinen viesti | välitetty viesti | välitetty viesti / fwd.msg | edelleenlähetetty viesti | algne sõnum | algne kiri
  wiadomość oryginalna | oryginalna wiadomość | treść oryginalnej wiadomości | wiadomość pierwotna | przekazana wiadomość
  treść przekazanej wiadomości | wiadomość przesłana dalej
  původní zpráva | původní e-mail | přeposlaná zpráva | pôvodná správa | preposlaná správa | preposlaná správa --- forwarded message
  исходное сообщение | оригинальное сообщение | исходное письмо | пересылаемое сообщение | перенаправленное сообщение
  пересылаемое письмо | начало переадресованного сообщения | первоначальное сообщение
  оригінальне повідомлення | вихідне повідомлення | початкове повідомлення | переслане повідомлення | перенаправлене повідомлення
  orijinal mesaj | özgün ileti | orijinal ileti | asıl mesaj | iletilen mesaj | iletilmiş mesaj | iletilen ileti
  eredeti üzenet | továbbított üzenet | eredeti levél | mesaj original | mesajul original | mesaj redirecționat
  αρχικό μήνυμα | αρχικό μύνημα | προωθημένο μήνυμα | izvorna poruka | originalna poruka | proslijeđena poruka | izvirno sporočilo
  оригинално съобщение | изходно съобщение | препратено съобщение | tin nhắn gốc | thư gốc | thư được chuyển tiếp | pesan asli
  pesan terusan | mesej asal | ข้อความต้นฉบับ | ข้อความเดิม | मूल संदेश
  הודעה מקורית | ההודעה המקורית | הודעה שהועברה | הודעה מועברת
  الرسالة الأصلية | رسالة أصلية | رسالة معاد توجيهها | الرسالة المعاد توجيهها | پیام اصلی
  元のメッセージ | オリジナルメッセージ | 元のメール | 転送メッセージ | 転送されたメッセージ | メッセージを転送
  原始邮件 | 原始郵件 | 原始信件 | 原邮件 | 原件 | 回复的原邮件 | 回复邮件 | 转发邮件 | 转发的邮件 | 轉寄郵件 | 轉寄信件 | 原始訊息 | 源邮件 | 邮件原件
  원본 메일 | 원본 메시지 | 원본메일 | 전달된 메일 | 전달된 메시지
`);

/** Lines above a quote that introduce it without dashes. */
export const QUOTE_BEGINS = wordList(`
  Begin forwarded message | Forwarded message | Anfang der weitergeleiteten Nachricht | Anfang der weitergeleiteten E-Mail
  Début du message réexpédié | Début du message transféré | Inicio del mensaje reenviado | Inizio messaggio inoltrato
  Início da mensagem encaminhada | Início da mensagem reencaminhada | Begin doorgestuurd bericht | Vidarebefordrat brev
  Vidarebefordrat mejl | Start på videresendt besked | Videresendt melding | Videresendt e-post | Välitetty viesti alkaa
  Początek przekazywanej wiadomości | Začátek přeposílané zprávy | Začiatok preposlanej správy | Начало переадресованного сообщения
  Початок листа, що пересилається | İleti başlangıcı | Továbbított levél kezdete | Începe mesajul redirecționat
  Započni proslijeđenu poruku | Έναρξη προωθημένου μηνύματος | תחילת ההודעה שהועברה | بداية الرسالة المُعاد توجيهها | 転送されたメッセージ
  开始转发的邮件 | 開始轉寄郵件 | 전달된 메시지 시작 | Message du | Mensaje de fecha | Messaggio del
`);

/** Labels of header fields, by field. */
export const HEADER_LABELS = {
  from: wordList(`
    From | Von | Absender | De | Expéditeur | De la part de | Remitente | Da | Mittente | Remetente | Enviado por | Van | Afzender
    Från | Avsändare | Fra | Avsender | Afsender | Frá | Lähettäjä | Saatja | Od | Nadawca | Odesílatel | Odosielateľ | От | От кого
    Отправитель | Від | Від кого | Відправник | Kimden | Gönderen | Feladó | De la | Expeditor | Expeditorul | Από | Αποστολέας | Šalje
    Pošiljatelj | Nuo | No | Từ | Người gửi | Dari | Pengirim | จาก | מאת | من | المرسل | از | फ़्रॉम | प्रेषक
    差出人 | 送信元 | 送信者 | 发件人 | 寄件者 | 寄件人 | 寄信人 | 보낸 사람 | 보낸사람 | 발신 | 발신자
  `),
  date: wordList(`
    Sent | Date | Sent on | Sent at | Date sent | Sent date | Gesendet | Gesendet am | Datum | Verschickt | Envoyé | Envoyé le | Envoyée
    Date d'envoi | Enviado | Enviado el | Enviado em | Enviada em | Enviada | Fecha | Fecha de envío | Data de envio | Enviat | Data
    Inviato | Inviata | Inviato il | Data invio | Verzonden | Verzonden op | Verstuurd | Verzenddatum | Skickat | Skickat den | Sendt
    Sendt den | Dato | Dags | Dagsetning | Lähetetty | Päivämäärä | Päiväys | Päivä | Kuupäev | Saadetud | Wysłano | Wysłane | Data wysłania
    Odesláno | Odoslané | Odoslaná | Dátum | Poslano | Отправлено | Дата | Дата отправки | Надіслано | Відправлено | Дата надсилання
    Изпратено | Tarih | Gönderilme | Gönderilme Tarihi | Gönderildi | Gönderilen | Gönderme | Elküldve | Küldve | Trimis | Dată | Dată trimitere
    Στάλθηκε | Ημερομηνία | Αποστολή | Εστάλη | Išsiųsta | Nosūtīts | Đã gửi | Ngày | Đã Gửi | Dikirim | Tanggal | ส่งเมื่อ | วันที่ | ส่ง
    נשלח | נשלח ב | תאריך | تم الإرسال | تاريخ الإرسال | التاريخ | أُرسلت | الإرسال | تاریخ | भेजा गया | दिनांक
    送信日時 | 日時 | 日付 | 送信日 | 发送时间 | 发送日期 | 日期 | 发件时间 | 時間 | 时间 | 寄件日期 | 傳送時間 | 寄出日期 | 送出時間
    보낸 날짜 | 날짜 | 보낸날짜 | 전송 날짜 | 보낸 시간 | 일시 | 일자
  `),
  to: wordList(`
    To | An | Empfänger | À | A | Pour | Destinataire | Para | Destinatario | Per a | Destinatário | Aan | Ontvanger | Till | Mottagare | Til
    Modtager | Mottaker | Vastaanottaja | Saaja | Adressaat | Do | Adresat | Odbiorca | Komu | Příjemce | Pre | Кому | Получатель | До | Одержувач
    Kime | Alıcı | Címzett | Către | Destinatar | Destinatarul | Προς | Παραλήπτης | Prima | Za | Kam | Tới | Đến | Người nhận
    Kepada | Untuk | ถึง | אל | נמען | إلى | إلي | به | प्रति | को
    宛先 | 送信先 | 收件人 | 收件者 | 收信人 | 받는 사람 | 받는사람 | 수신 | 수신자
  `),
  subject: wordList(`
    Subject | Re | Betreff | Betr | Objet | Sujet | Asunto | Assumpte | Assunto | Oggetto | Ogg | Onderwerp | Betreft | Ämne | Emne | Efni
    Aihe | Teema | Temat | Předmět | Predmet | Тема | Предмет | Тема письма | Konu | Tárgy | Subiect | Subiectul | Θέμα | Naslov | Zadeva
    Tema | Tēma | Относно | Chủ đề | Tiêu đề | Perihal | Subjek | เรื่อง | หัวเรื่อง | נושא | הנדון | الموضوع | موضوع | विषय
    件名 | 主题 | 主旨 | 主題 | 标题 | 標題 | 제목
  `),
  other: wordList(`
    Cc | Bcc | CC | Kopie | Kopie (CC) | Kopia | Kopi | Kopija | Kopio | Kopia till | Copie à | Copie | Copia | Cópia | Con copia | Másolat
    Másolatot kap | Dw | UDW | Do wiadomości | Kópia | Копия | Копія | Bilgi | Cc'ye | Κοιν | Κοινοποίηση | עותק | نسخة | 抄送 | 副本 | 참조
    Reply-To | Reply to | Antwort an | Antwortadresse | Répondre à | Responder a | Rispondi a | Antwoord aan | Svar til | Svara till | Vastaus
    Odpowiedź do | Odpověď na | Ответить | Кому відповісти | Yanıt | 返信先 | 回复 | 回覆 | Attachments | Attachment | Anlagen | Anhang
    Pièces jointes | Adjuntos | Anexos | Allegati | Bijlagen | Bifogade filer | Vedhæftede filer | Vedlegg | Liitteet | Załączniki | Přílohy
    Вложения | Вкладення | Ekler | Mellékletek | Atașamente | 添付ファイル | 附件 | 첨부 | Importance | Priority | Wichtigkeit | Priorität | Importancia
    Prioridad | Prioridade | Importanza | Prioriteit | Prioritet | Tärkeys | Ważność | Priorita | Важность | Önem | 重要度 | 重要性 | 중요도
    Message-ID | Organization | Reply-to | Sender | Mailed by | In reply to | Newsgroups | Followup-To
  `),
} as const;

/** How footers start that name the device or client. */
export const SENT_FROM_STARTS = wordList(`
  Sent from | Sent with | Sent via | Sent using | Sent by | Sent through | Secured with | This message was sent from
  This email was sent from | Composed with | Written with | Yahoo Mail:
  Von meinem | Von meiner | Gesendet von | Gesendet mit | Gesendet über | Gesendet vom | Diese Nachricht wurde | Diese E-Mail wurde
  Verschickt mit | Envoyé de | Envoyé depuis | Envoyé à partir | Envoyé avec | Envoyé via | Envoyé par | Provenance : | Provenance:
  Enviado desde | Enviado con | Enviado com | Enviado de | Enviado do | Enviado da | Enviado por | Enviado via | Enviado através
  Enviado a partir | Enviat des | Inviato da | Inviato dal | Inviato con | Inviato dalla | Inviato tramite
  Verzonden vanaf | Verzonden met | Verzonden via | Verzonden vanuit | Verstuurd vanaf | Verstuurd met | Verstuurd via
  Skickat från | Skickat med | Skickades från | Sendt fra | Sendt med | Sendt via | Lähetetty | Saadetud | Wysłane z | Wysłano z
  Wysłane za | Wysłano za | Odesláno z | Odesláno pomocí | Odoslané z | Poslano | Отправлено с | Отправлено из | Отправлено через
  Отправлено от | Надіслано з | Надіслано із | Відправлено з | Εστάλη | Στάλθηκε | Αποστολή | Elküldve | Küldve | Trimis
  Được gửi | Đã gửi | Dikirim | ส่งจาก | נשלח | أرسلت من | أُرسلت من | تم الإرسال | مرسل من | 发自 | 來自 | 来自 | 從我 | 从我 | 由 | 내 | 나의
`);

/** How footers start that offer an application. */
export const GET_STARTS = wordList(`
  Get | Download | Hol dir | Holen Sie sich | Laden Sie | Outlook für | Télécharger | Télécharge | Téléchargez | Obtenir | Obtenez
  Obtener | Obtén | Obtenga | Descargar | Descarga | Obter | Obtenha | Baixar | Baixe | Transferir | Scarica | Ottieni | Scaricare
  Outlook voor | Outlook ophalen | Hämta | Skaffa | Hent | Få | Skaff | Last ned | Hanki | Lataa | Pobierz | Uzyskaj | Získejte | Získat
  Stáhnout | Stáhněte | Stiahnuť | Preuzmi | Скачать | Скачайте | Загрузить | Получить | Получите | Отримати | Отримайте
  Завантажити | Завантажте | Λήψη | Letöltés | Descărcați | Obțineți | Unduh | Edinin | הורד | קבל | השג | تنزيل | الحصول على | احصل على
  获取 | 取得 | 下载 | 下載
`);

/** How footers end that name the device or client, in languages with the verb last. */
export const SENT_FROM_ENDS = wordList(`
  gesendet | gönderildi | から送信 | から送信されました | 发送 | 傳送 | 寄出 | 에서 보냄 | 에서 보낸 메일 | 에서 보냈습니다 | 보냄 | elküldve | küldve
`);

/** How footers end that offer an application, in languages with the verb last. */
export const GET_ENDS = wordList(`
  edinin | indirin | を入手 | を入手する | を入手してください | 다운로드 | 받기 | 가져오기 | beziehen | herunterladen | downloaden | ophalen
`);

/** Applications that such footers offer. */
export const OFFERED_CLIENTS = wordList(
  'Outlook | BlueMail | TypeApp | Spark | myMail | Canary | Yahoo Mail | Proton Mail | Thunderbird',
);

/** Devices and applications in such footers; some languages add endings to them. */
export const CLIENTS = wordList(`
  iPhon | iPad | iPod | iOS | iCloud | Apple | Mac | MacBook | Android | Galaxy | Samsung | Huawei | HUAWEI | Xiaomi | Redmi | Pixel
  OnePlus | OPPO | vivo | Nokia | Lumia | BlackBerry | Blackberry | Sony | Xperia | Motorola | LG | HTC | ZTE | Windows | smartphone
  Smartphone | mobile | Mobile | mobil | Mobil | móvil | celular | phone | Phone | Handy | Mobiltelefon | telefon | Telefon | telefoon
  téléphone | cellulare | tablet | Tablet | teléfono | mobiele | puhelin | телефона | устройства | 手机 | 手機 | 小米 | 华为 | スマートフォン
  Outlook | Proton | ProtonMail | Yahoo | AOL | Gmail | GMX | WEB.DE | web.de | Telekom Mail | T-Online | freenet | Posteo | mailbox.org
  Orange | SFR | La Poste | Libero | Virgilio | Tiscali | Mail.ru | Mail | Яндекс | Yandex | Почты | Пошти | Rambler | QQ | 网易 | 邮箱
  Foxmail | Thunderbird | K-9 | K9 | FairEmail | Spark | Superhuman | Airmail | Canary | BlueMail | TypeApp | myMail | Aqua | Mailbird
  Mailspring | eM Client | Evolution | KMail | Zoho | Zimbra | Roundcube | Horde | Fastmail | HEY | Missive | Tuta | Tutanota | Mailfence
  Naver | 네이버 | Daum | Courrier | Correo | Correio | Verizon | VERIZON | AT&T | T-Mobile | Workspace ONE | Nexus | Wiko | Fairphone | Lenovo
`);
