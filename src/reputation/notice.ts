/** The mails that tell the owners of an account what the guard has found. */
import { ADVICE, type Guard, reasonText } from '../accounts/accounts.ts';
import { iso } from '../base/clock.ts';
import type { Notice } from '../base/notice.ts';

export function noticeOf({ accountId, status, sinceMs, reason }: Guard): Notice {
  const rests = status === 'resting';
  const since = iso(sinceMs ?? 0);
  return {
    ...{ accountId, key: `${accountId}:guard-${status}:${since}` },
    subject: rests ? 'Your live mail rests' : 'Your live mail may soon rest',
    text: [
      ...(reason === null ? [] : [reasonText(reason), ADVICE[reason.rate]]),
      '',
      `Account:  ${accountId}`,
      `Since:    ${since}`,
      '',
      ...(rests
        ? [
            'Live mail is accepted and waits; none of it leaves. The time does not count for its 72 hours; a message that was',
            'sent with a shorter lifetime bounces when that ends.',
            'Once the cause is gone an owner lets it leave: in the portal under Incidents, or with',
            'POST /account/resume-sending. Mail is counted from zero from then on. The operator of this service can do it too.',
          ]
        : [
            'Mail still leaves. Where the rate is too high 15 minutes after this warning, or later, live mail rests until an',
            'owner of the account or the operator of this service decides.',
          ]),
      'GET /account/health shows the rates and their thresholds.',
      '',
    ].join('\n'),
  };
}
