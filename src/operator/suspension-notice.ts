/** The email to the users of an account that an operator suspended or reactivated. */
import { iso } from '../base/clock.ts';
import type { Notice } from '../base/notice.ts';

export interface StatusChange {
  accountId: string;
  status: 'active' | 'suspended';
  /** What the operator wrote; null if nothing. */
  reason: string | null;
  /** Unix ms. */
  atMs: number;
}

export function suspensionNotice({ accountId, status, reason, atMs }: StatusChange): Notice {
  const facts = [`Account: ${accountId}`, `Time:    ${iso(atMs)}`];
  if (status === 'active')
    return {
      accountId,
      key: `${accountId}:active:${atMs}`,
      subject: 'Your account is active again',
      text: [...facts, '', 'Your operator reactivated the account. Queued email is being sent.', ''].join('\n'),
    };
  return {
    accountId,
    key: `${accountId}:suspended:${atMs}`,
    subject: 'Your account was suspended',
    text: [
      ...facts,
      ...(reason === null ? [] : [`Reason:  ${reason}`]),
      '',
      'Your operator suspended the account. Postrider rejects its API calls with 403 ACCOUNT_SUSPENDED and its SMTP logins',
      'with 535. Queued email is held, and is sent when the account is active again. Contact your operator.',
      '',
    ].join('\n'),
  };
}
