/** Phrases of delivery notices (notice-phrases.ts) in all other languages. Without accents, in lower case. */
import type { Phrases } from './notice-phrases-western.ts';

/** Sources of regular expressions, by language. */
export const OTHER: Readonly<Record<string, Phrases>> = {
  Polish: {
    failed: [
      'nie (?:mozna|mogla|moze|mogly|moglo|udalo sie|zostala|zostalo|zostaly|zosta[łl][aoy]|uda[łl]o sie|mog[łl][aoy]) (?:\\S+ ){0,3}?(?:dostarcz|dorecz|wys[łl]a)',
      'niedostarcz|niedor[ęe]cz|nie dostarczono|nie doreczono',
      '(?:dostarczenie|doreczenie|dostarczanie|wys[łl]anie)[^.]{0,80} (?:nie powiod[łl]o|niemozliwe|niepowodzen|zosta[łl]o odrzucone)',
      '(?:b[łl]ad|problem)[^.]{0,20} (?:dostarcz|dorecz|podczas (?:dostarcz|dorecz|wysy[łl]))',
      'wiadomosc[^.]{0,40} (?:zosta[łl]a )?(?:odrzucona|zwrocona)',
      'zwrot (?:do )?nadawcy|zwrot wiadomosci',
    ],
    delayed: [
      '(?:dostarcz|dorecz)[^.]{0,60} (?:opozni|wstrzyman|od[łl]ozon)|opozni(?:one|enie)',
      '(?:jeszcze|dotychczas) nie (?:zosta[łl]a|zosta[łl]o|dostarczon)',
      '(?:kolejne|dalsze|ponown)[^.]{0,20} prob',
    ],
    delivered: [
      'zosta[łl][aoy] (?:pomyslnie )?(?:dostarczon|doreczon|przekazan)',
      'pomyslnie (?:dostarczon|doreczon)',
      '^(?:dostarczon[oa]|doreczon[oa]|przekazan[oa]) ?:',
      'potwierdzenie (?:dostarczenia|doreczenia|odbioru)',
    ],
  },
  Czech: {
    failed: [
      'nedorucitel|nedorucen',
      '(?:nelze|nepodarilo|nebylo mozne|nemohla byt|nemohl byt|nebyla|nebyl|nebylo)(?: \\S+){0,5}? (?:doruc|odesl|dodat|predat)',
      'doruceni[^.]{0,80} (?:selhalo|se nezdarilo|se nepodarilo|neni mozne)|chyba (?:pri )?dorucen',
      'zprava (?:\\S+ ){0,3}(?:odmitnuta|vracena|zamitnuta)',
    ],
    delayed: [
      'doruceni[^.]{0,60} (?:zpozd|odloz|opozd)|zpozdeni doruceni|zpozden',
      '(?:dosud|zatim|jeste) (?:nebyl|se nepodarilo)',
      'pokusy? o doruceni[^.]{0,30} (?:pokrac|opak)',
    ],
    delivered: [
      '(?:byla|bylo|byl) (?:uspesne )?dorucen',
      'uspesne (?:dorucen|odeslan)',
      '^(?:doruceno|dorucena|predano) ?:',
      'potvrzeni o doruceni',
    ],
  },
  Slovak: {
    failed: [
      'nedorucitel|nedorucen',
      '(?:nie je mozne|nepodarilo|nebolo mozne|nemohla byt|nebola|nebol)(?: \\S+){0,5}? (?:doruc|odosl)',
      'dorucenie[^.]{0,80} (?:zlyhalo|sa nepodarilo)',
      'sprava (?:\\S+ ){0,3}(?:odmietnuta|vratena|zamietnuta)',
    ],
    delayed: ['dorucenie[^.]{0,60} oneskor|oneskoren', '(?:zatial|este) (?:nebol|sa nepodarilo)'],
    delivered: ['(?:bola|bolo|bol) (?:uspesne )?dorucen', '^dorucen[eéao] ?:'],
  },
  Hungarian: {
    failed: [
      'kezbesithetetlen',
      '(?:nem (?:sikerult|lehet|lehetett|tudtuk|tudta))(?: \\S+){0,5}? (?:kezbesit|elkuld|tovabbit)',
      '(?:kezbesit\\S*|tovabbit\\S*|elkuld\\S*)(?: \\S+){0,5}? (?:nem (?:sikerult|lehet|lehetett|tudtuk)|sikertelen|meghiusult)',
      'sikertelen (?:kezbesites|tovabbitas|kuldes)|kezbesitesi hiba',
      'uzenet\\S*(?: \\S+){0,4} (?:elutasit|visszautasit|visszakuld)',
    ],
    delayed: [
      'kezbesites[^.]{0,60} kes(?:ik|leltet|edelm)|kesleltetett',
      'meg nem (?:sikerult|kerult|lett)',
      'tovabb(?:i|ra is) (?:probal|kiserlet)',
    ],
    delivered: ['sikeresen (?:kezbesit|tovabbit)', '^kezbesitve ?:', '(?:kezbesitettuk|kezbesitve lett)'],
  },
  Romanian: {
    failed: [
      'nelivrabil|nelivrat|imposibil de livrat',
      'nu (?:a|au|poate|pot|s-a|s-au|a putut|au putut|s-a putut) (?:\\S+ ){0,3}?(?:fi )?(?:livrat|livra|trimis|trimite|expediat|transmis)',
      'livrarea[^.]{0,80} (?:a )?(?:esuat|nu a reusit)|eroare (?:la|de) livrare',
      'mesajul (?:\\S+ ){0,3}(?:respins|returnat|refuzat)',
    ],
    delayed: ['livrare[^.]{0,60} (?:intarzi|amanat)|intarziere', 'inca nu a fost livrat|nu a fost inca livrat'],
    delivered: ['(?<!nu )a fost livrat (?:cu succes|catre|la)|livrat cu succes', '^livrat ?:'],
  },
  Slovene: {
    failed: [
      '(?:ni (?:bilo )?mogoce|ni bilo|ni bila|ne more)(?: \\S+){0,5}? (?:dostav|poslati|dostavljen)',
      'nedostavljiv|dostava[^.]{0,60} ni uspela|napaka pri dostavi',
    ],
    delayed: ['dostava[^.]{0,60} (?:zakasn|odloz)', 'se ni bil[oa] dostavljen'],
    delivered: ['(?<!ni )(?:je bilo|je bila) (?:uspesno )?dostavljen', '^dostavljeno ?:'],
  },
  Croatian: {
    failed: [
      '(?:nije moguce|nije bilo moguce|nije|ne moze se|nije uspjelo|nije uspelo|ne moze)(?: \\S+){0,5}? (?:isporuc|dostav|poslati|urucen)',
      'neisporuc|isporuka[^.]{0,60} (?:nije uspjela|nije uspela|neuspje)|greska (?:pri|u) ispor',
      'poruka (?:\\S+ ){0,3}(?:odbijena|vracena)',
    ],
    delayed: ['isporuka[^.]{0,60} (?:odgod|kasni|zakas)', 'jos (?:uvijek |uvek )?nije isporuc'],
    delivered: ['(?<!nije )je (?:uspjesno |uspesno )?isporucen', '^isporuceno ?:'],
  },
  Estonian: {
    failed: [
      'kohaletoimetamatu|kattetoimetamatu',
      '(?:ei saa|ei saanud|ei onnestunud)(?: \\S+){0,5}? (?:toimetada|edastada|saata)',
      'kohaletoimetamine[^.]{0,60} (?:nurjus|ebaonnestus)',
    ],
    delayed: ['kohaletoimetamine[^.]{0,60} (?:viibi|hiline)'],
    delivered: ['on (?:edukalt )?kohale toimetatud', '^kohale toimetatud ?:'],
  },
  Latvian: {
    failed: [
      'nav piegadajam|nepiegad|(?:nevar|nevareja|neizdevas)(?: \\S+){0,5}? (?:piegadat|nosutit)',
      'piegade[^.]{0,60} neizdevas',
    ],
    delayed: ['piegade[^.]{0,60} (?:aizkav|kavej)'],
    delivered: ['(?:ir|tika) (?:sekmigi )?piegadat', '^piegadat[as] ?:'],
  },
  Lithuanian: {
    failed: [
      'nepristaty|(?:nepavyko|negalima|nebuvo|negali buti)(?: \\S+){0,5}? (?:pristaty|issiu)',
      'pristatymas[^.]{0,60} nepavyko',
    ],
    delayed: ['pristatymas[^.]{0,60} (?:atidet|vel|uzdels)'],
    delivered: ['(?<!ne)(?:buvo )?sekmingai pristaty', '^pristatyta ?:'],
  },
  Turkish: {
    failed: [
      'teslim edil(?:emedi|emiyor|emez|medi|emeyen)|ulast[ıi]r[ıi]lamad[ıi]|iletilemedi|iletilemiyor|gonderilemedi|teslim edilmesi mumkun',
      'teslim[^.]{0,60} (?:basar[ıi]s[ıi]z|hata)|teslimat (?:hatas[ıi]|basar[ıi]s[ıi]z)',
      '(?:ileti|mesaj|e-?posta)\\S*(?: \\S+){0,4} (?:reddedildi|geri dondu|iade edildi)',
    ],
    delayed: ['teslim[^.]{0,60} gecik|gecik(?:ti|meli|mesi)', 'henuz teslim edil', 'denemeye devam'],
    delivered: ['basar[ıi]yla (?:teslim|iletil|gonderil|ulast)', '^teslim edildi ?:', 'teslim edildi(?: |\\.|$)'],
  },
  Vietnamese: {
    failed: [
      '(?:khong the|khong|chua the)(?: \\S+){0,3}? (?:gui|chuyen|phat|giao)',
      '(?:gui|chuyen|phat|giao)[^.]{0,60} (?:khong thanh cong|that bai)',
    ],
    delayed: ['(?:gui|chuyen|phat|giao)[^.]{0,40} (?:bi )?(?:tri hoan|cham)'],
    delivered: ['(?:gui|chuyen|phat|giao)[^.]{0,20} thanh cong'],
  },
  Indonesian: {
    failed: [
      'tidak (?:dapat|bisa|berhasil|ter)(?: ?\\S+){0,3}? ?(?:kirim|sampai|disampaikan|diantar)',
      'gagal (?:di)?(?:kirim|sampaikan|mengirim)|pengiriman[^.]{0,60} gagal',
    ],
    delayed: ['pengiriman[^.]{0,60} (?:tertunda|terlambat|ditunda)', 'belum (?:ter|di)?kirim'],
    delivered: ['(?<!tidak )(?<!belum )berhasil (?:di)?(?:kirim|sampaikan)'],
  },
  Greek: {
    failed: [
      '(?:δεν|μη) (?:ηταν |ειναι |μπορει |μπορεσε |κατεστη |εχει |υπηρξε )?(?:\\S+ ){0,5}?(?:παραδο|παραδωσ|παραδοθ|αποσταλ|παραδοτε)',
      'αποτυχια (?:\\S+ )?(?:παραδοσ|αποστολ)|η παραδοση[^.]{0,80} απετυχε|αδυνατη η παραδοση|σφαλμα παραδοσης',
    ],
    delayed: ['καθυστερησ|η παραδοση[^.]{0,60} καθυστερ', 'δεν εχει (?:ακομη|ακομα)'],
    delivered: ['παραδοθηκε (?:με επιτυχια|σε|στ)|επιτυχης παραδοση', '^παραδοθηκε ?:'],
  },
  Russian: {
    failed: [
      'недостав(?:лен|им)|не доставлен',
      'не (?:может|могло|могут|могла|удалось|удается|было|был|была|смогл\\S+|получилось|представляется возможным)(?: \\S+){0,6}? (?:достав|отправ|передан)',
      '(?:достав\\S+|отправ\\S+|передач\\S+)(?: \\S+){0,8}? (?:не удал|невозможн|не может|завершилась неудачей|прекращен)',
      'невозможн\\S+(?: \\S+){0,3} (?:достав|отправ)',
      '(?:ошибк\\S+|сбо\\S+|проблем\\S+) (?:при |в )?(?:достав|отправ|пересылк)',
      '(?:письмо|сообщение|почта)(?: \\S+){0,4} (?:отклонен|отвергнут|возвращен|не принят)',
      'возврат (?:письма|почты|сообщения)|возвращен\\S* отправител',
    ],
    delayed: [
      '(?:достав\\S+|отправ\\S+)[^.]{0,60} (?:задерж|отложен|откладыва)|задержк\\S+ (?:в |при )?достав|отложенн\\S+ достав',
      '(?:еще|пока|до сих пор) не (?:было |был |была )?доставлен',
      '(?:попытк\\S+|пробовать)[^.]{0,60} (?:продолж|повтор)|продолж\\S+[^.]{0,30} попыт',
    ],
    delivered: [
      'успешно (?:доставлен|отправлен|передан|перенаправлен)',
      '(?<!не )(?<!не было )(?<!недо)(?:было |был |была )доставлен\\S* (?:в |получат|адресат|по )',
      '^(?:доставлено|доставлен|ретранслировано|передано) ?:',
      'успешн\\S+ достав|уведомление о доставке|подтверждение доставки',
    ],
  },
  Ukrainian: {
    failed: [
      'не доставлен|недоставлен',
      '(?:неможлив\\S*|не (?:може|вдалося|вдаеться|можна|було|був))(?: \\S+){0,6}? (?:достав|надисл|відправ|вiдправ|видправ|відісл)',
      'помилка (?:при |пiд час |пид час )?(?:достав|надсил)',
      '(?:лист|повідомлення|повидомлення)(?: \\S+){0,4} (?:відхилен|видхилен|повернут|повернен)',
    ],
    delayed: [
      'доставк\\S+[^.]{0,60} (?:затрим|відкладен|видкладен)|затримк\\S+ доставк',
      'ще не (?:було |був )?доставлен',
    ],
    delivered: ['успішно доставлен|успишно доставлен', '^доставлено ?:'],
  },
  Bulgarian: {
    failed: [
      'недостав(?:ен|им)|не (?:може|можа|беше|бе|е)(?: \\S+){0,5}? достав',
      'грешка при достав|неуспешн\\S+ достав|доставката[^.]{0,60} (?:неуспешна|не е успешна)',
    ],
    delayed: ['доставка\\S*[^.]{0,60} (?:заб(?:ав|авя)|отложен)|забавен', 'все още не е доставен'],
    delivered: ['успешно доставен', '^доставено ?:'],
  },
  Serbian: {
    failed: [
      '(?:није могуће|ниjе могуће|није могуце|није|не може)(?: \\S+){0,5}? (?:испоруч|достав|послати)',
      'испорука[^.]{0,60} ни(?:је|jе) успела',
    ],
    delayed: ['испорука[^.]{0,60} (?:одлож|кас)'],
    delivered: ['успешно испоручен', '^испоручено ?:'],
  },
  Hebrew: {
    failed: [
      'לא (?:ניתן|הצלחנו|נמסר|נמסרה|היה ניתן)(?: \\S+){0,4}? ?(?:למסו|לשלוח|למסירה|להעביר|הודע|ל)?',
      'לא נמסר|מסיר\\S+[^.]{0,60} נכשל',
    ],
    delayed: ['מסיר\\S*[^.]{0,60} (?:עוכב|מתעכב|עיכוב)|עיכוב במסיר', 'טרם נמסר'],
    delivered: ['נמסר\\S* בהצלחה', '^נמסר[הו]? ?:'],
  },
  Arabic: {
    failed: [
      '(?:تعذر|يتعذر|لم يتم|لا يمكن|لم نتمكن|فشل)(?: \\S+){0,4}? ?(?:تسليم|توصيل|ارسال|إرسال|التسليم|الارسال|الإرسال)',
      'غير قابل للتسليم',
    ],
    delayed: ['تاخر|تاخير|تأخر|تأخير', 'لم يتم (?:تسليم\\S* )?بعد'],
    delivered: ['تم (?:تسليم|توصيل)(?: \\S+){0,4} بنجاح|تم التسليم'],
  },
  Japanese: {
    failed: [
      '(?:配信|送信|配達|配送|送達|転送|お届け)(?:する)?(?:こと)?(?:が|は|も|を)?(?:でき(?:ません|ない|なかった|ず)|されません|不能|に失敗|出来(?:ません|ない|なかった)|できませんでした)',
      '(?:配信|送信|配達|配送|送達)(?:不能|失敗|エラー|不可)',
      '届け(?:られ|ることが(?:でき|出来))?ません|届きませんでした|届かなかった',
      '(?:メール|メッセージ)(?:が|は|を)?(?:拒否|返送|返却|戻)',
      'エラーメール|あて先不明|宛先不明|宛先が見つかりません|受信拒否',
    ],
    delayed: [
      '(?:配信|送信|配達|配送)(?:の|が|は|に)?(?:遅延|遅れ|遅く|保留)',
      '(?:まだ|未だ)(?:配信|送信|配達|配送)',
      '(?:再送|再試行|再配信)(?:を|が|は|し)(?:続|試|行|ます|いた)',
    ],
    delivered: [
      '(?:正常に|無事に?)(?:配信|送信|配達|配送|転送)',
      '(?:配信|配達|配送|送達)(?:が)?(?:され(?:ました|ています)|完了|済み|成功|しました|に成功)',
      '^(?:配信済み|開封済み|中継済み|配信されました)',
    ],
  },
  Chinese: {
    failed: [
      '(?:无法|無法|未能|不能|没有|沒有|未)(?:被)?(?:成功)?(?:地)?(?:投递|投遞|送达|送達|发送|傳送|传送|传递|傳遞|递送|遞送|寄达|寄達|寄送|发出)',
      '(?:投递|投遞|发送|傳送|传送|传递|傳遞|递送|遞送|寄送)(?:\\S{0,4})?(?:失败|失敗|不成功|错误|錯誤)',
      '退信|退回|被退|拒收|被拒绝|被拒絕|拒绝接收|拒絕接收',
    ],
    delayed: [
      '(?:投递|投遞|发送|傳送|传递|傳遞|送达|送達|邮件|郵件)\\S{0,6}(?:延迟|延遲|推迟|延误|暫緩)|延迟(?:投递|发送|通知)',
      '(?:尚未|还未|還未|仍未)(?:投递|投遞|送达|送達|发送|傳送)',
      '(?:将|將|会|會|系统|系統)\\S{0,6}(?:继续|繼續|再次|重新)(?:尝试|嘗試)',
    ],
    delivered: [
      '(?<!未)(?<!未能)(?<!没有)(?:已|成功|已成功|已经)(?:投递|投遞|送达|送達|传递|傳遞|寄达|寄達)',
      '(?:投递|投遞|送达|送達|发送|傳送)成功',
      '^(?:已送达|已送達|已传递|已傳遞|已轉送|已转送)',
    ],
  },
  Korean: {
    failed: [
      '(?:배달|전달|전송|발송|배송|도착)(?:을|를|이|가|은|는)? ?(?:되지|하지|할 수|될 수|하는데|에) ?(?:않|못|없|실패)',
      '(?:배달|전달|전송|발송|배송)(?:이|에|을|을 )? ?(?:실패|불가|오류)',
      '반송|수신 ?거부|거부되었|되돌아',
    ],
    delayed: [
      '(?:배달|전달|전송|발송)(?:이|이 )? ?(?:지연|늦)',
      '아직 (?:배달|전달|전송|발송)',
      '계속(?:해서)? ?(?:시도|전송)|다시 시도(?:할|합니다|됩니다|될)',
    ],
    delivered: ['(?:성공적으로|정상적으로) ?(?:배달|전달|전송|발송)', '(?:배달|전달)(?:되었|됨|완료| 완료)'],
  },
  Thai: {
    failed: ['ไม่สามารถ(?:ส่ง|จัดส่ง|นำส่ง)', '(?:ส่ง|จัดส่ง|นำส่ง)\\S{0,40}(?:ไม่สำเร็จ|ล้มเหลว)'],
    delayed: ['(?:ส่ง|จัดส่ง|นำส่ง)\\S{0,40}ล่าช้า'],
    delivered: ['(?:ส่ง|จัดส่ง|นำส่ง)\\S{0,20}(?<!ไม่)สำเร็จ'],
  },
};
