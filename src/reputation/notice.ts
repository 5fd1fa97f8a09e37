/** The emails that notify the owners of an account of a warning or a hold. */
import { ADVICE, reasonText, type SendingProtection } from '../accounts/accounts.ts';
import { iso } from '../base/clock.ts';
import type { Notice } from '../base/notice.ts';

export function noticeOf({ accountId, status, sinceMs, reason }: SendingProtection): Notice {
  const isHeld = status === 'held';
  const atMs = sinceMs ?? 0;
  return {
    accountId,
    kind: 'sendingProtection',
    key: `${accountId}:sending-protection-${status}:${iso(atMs)}`,
    subject: isHeld ? 'Your live email is held' : 'Your live email may soon be held',
    parts: [
      ...(reason === null ? [] : [`${reasonText(reason)} ${ADVICE[reason.rate]}`]),
      { facts: [['Since', { atMs }]] },
      ...(isHeld
        ? [
            'Postrider accepts live email and holds it. The time on hold does not count toward the 72-hour lifetime of a message. A message with a shorter lifetime bounces when it expires.',
            'Once the cause is fixed, an owner can release held email: in the portal under Incidents, or with POST /account/resume-sending. Rates then reset to zero. Your operator can also release it.',
          ]
        : [
            'Live email is still sent. If the rate is still too high 15 minutes after this warning, Postrider holds live email until an owner of the account or your operator releases it.',
          ]),
      'The overview in the portal and GET /account/health show the rates and their thresholds.',
    ],
  };
}
