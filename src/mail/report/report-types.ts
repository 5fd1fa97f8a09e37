/** The words for what mail that comes back says: bounces, complaints, and mail that is neither. */

/** What a report says of one recipient. */
export interface ReportedRecipient {
  /** The address that the reporting server tried. */
  finalRecipient: string | null;
  /** The address as the sender gave it, where the server forwarded or rewrote it. */
  originalRecipient: string | null;
  action: 'failed' | 'delayed' | 'delivered' | 'relayed' | 'expanded';
  /** Enhanced status code (RFC 3463). */
  status: string | null;
  smtpCode: number | null;
  /** The reply of the server that refused, or what the reporting server says instead. */
  diagnostic: string | null;
  remoteHost: string | null;
}

/** What a report tells of the mail that it is about. */
export interface ReportedMail {
  /** With its angle brackets. */
  messageId: string | null;
  feedbackId: string | null;
  to: string[];
}

export type Report =
  | {
      kind: 'bounce';
      recipients: ReportedRecipient[];
      mail: ReportedMail;
      /** Whether it has a part for machines (RFC 3464). */
      isForMachines: boolean;
      /** Every address in its words for people, in lower case; none where these were not read. */
      mentioned: string[];
    }
  | {
      kind: 'complaint';
      feedbackType: string;
      recipients: string[];
      mail: ReportedMail;
      /** Local parts of addresses of ours that it quotes, none of them checked. */
      tokens: string[];
    }
  | { kind: 'none'; why: 'auto-reply' | 'challenge' | 'list' | 'not-a-report' | 'unreadable' };
