/** Types of mail reports: bounces, complaints, and mail that is neither. */

/** The command of its session at which the reporting server was refused. */
export type ReportedStage = 'ehlo' | 'mail' | 'rcpt' | 'dot';

/** What a report states about one recipient. */
export interface ReportedRecipient {
  /** The address that the reporting server tried. */
  finalRecipient: string | null;
  /** The address as the sender gave it, if the server forwarded or rewrote it. */
  originalRecipient: string | null;
  action: 'failed' | 'delayed' | 'delivered' | 'relayed' | 'expanded';
  /** Enhanced status code (RFC 3463). */
  status: string | null;
  smtpCode: number | null;
  /** The reply of the server that refused, or the reporting server's text. */
  diagnostic: string | null;
  /** The stage at which the server was refused, if the readable text names it. */
  stage?: ReportedStage;
  remoteHost: string | null;
}

/** What a report states about the mail that it is about. */
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
      /** Whether it has a machine-readable part (RFC 3464). */
      isForMachines: boolean;
      /** Every address in its readable text, in lower case; none if that was not read. */
      mentioned: string[];
    }
  | {
      kind: 'complaint';
      feedbackType: string;
      recipients: string[];
      mail: ReportedMail;
      /** Local parts of token addresses that it quotes, unverified. */
      tokens: string[];
    }
  | { kind: 'none'; why: 'auto-reply' | 'challenge' | 'list' | 'not-a-report' | 'unreadable' };
