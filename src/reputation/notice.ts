/** The emails that notify the owners of an account of a warning or a hold. */
import { ADVICE, reasonText, type SendingProtection } from '../accounts/accounts.ts';
import { iso } from '../base/clock.ts';
import type { Notice } from '../base/notice.ts';

export function noticeOf({ accountId, status, sinceMs, reason }: SendingProtection): Notice {
  const isHeld = status === 'held';
  const since = iso(sinceMs ?? 0);
  return {
    accountId,
    key: `${accountId}:sending-protection-${status}:${since}`,
    subject: isHeld ? 'Your live mail is held' : 'Your live mail may soon be held',
    text: [
      ...(reason === null ? [] : [reasonText(reason), ADVICE[reason.rate]]),
      '',
      `Account:  ${accountId}`,
      `Since:    ${since}`,
      '',
      ...(isHeld
        ? [
            'Live mail is accepted and held; none of it is sent. The time on hold does not count toward the 72 hours of a',
            'message. A message that was sent with a shorter lifetime bounces when that ends.',
            'Once the cause is fixed, an owner can release the mail: in the portal under Incidents, or with',
            'POST /account/resume-sending. Rates are then counted from zero. Your operator can release it, too.',
          ]
        : [
            'Mail is still sent. If the rate is too high 15 minutes after this warning, or later, live mail is held until an',
            'owner of the account or the operator of this service releases it.',
          ]),
      'GET /account/health has the rates and their thresholds.',
      '',
    ].join('\n'),
  };
}
