/** The text of a notice, as an account in UTC receives it. */
import type { OperatorNotice } from '../../src/base/notice.ts';
import { renderNotice } from '../../src/mail/compose/notice.ts';

export function noticeText(notice: OperatorNotice): string {
  return renderNotice(notice, { sender: 'Shop', timeZone: 'UTC', footer: 'Footer' }).text;
}
