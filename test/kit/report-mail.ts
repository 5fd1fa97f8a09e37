/** Inbound reports: delivery reports (RFC 3464), feedback reports (RFC 5965) and out-of-office replies. */

const crlf = (text: string): Buffer => Buffer.from(text.replace(/\r?\n/g, '\r\n'));

export interface ReportedCopy {
  recipient: string;
  /** Including angle brackets; if absent, the report quotes none. */
  headerMessageId?: string;
  action?: 'failed' | 'delayed';
  status?: string;
  diagnostic?: string;
  /** Above 64 KB: stored with its work, and processed later. */
  isLarge?: boolean;
}

const LARGE = 'All that is known of it follows.\n'.repeat(2_200);

/** In the format of Postfix. */
export function deliveryReport(copy: ReportedCopy): Buffer {
  const { recipient, headerMessageId, action = 'failed', status = '5.1.1', isLarge = false } = copy;
  const { diagnostic = `550 5.1.1 <${recipient}>: Recipient address rejected: User unknown` } = copy;
  return crlf(`From: MAILER-DAEMON@mx.example (Mail Delivery System)
To: undisclosed-recipients:;
Subject: ${action === 'failed' ? 'Undelivered Mail Returned to Sender' : 'Delayed Mail (still being retried)'}
Auto-Submitted: auto-replied
Message-Id: <20261123.17@mx.example>
MIME-Version: 1.0
Content-Type: multipart/report; report-type=delivery-status; boundary="b17"

This is a MIME-encapsulated message.

--b17
Content-Description: Notification
Content-Type: text/plain; charset=us-ascii

This is the mail system at host mx.example.

<${recipient}>: host inner.example[192.0.2.7] said: ${diagnostic}
${isLarge ? LARGE : ''}
--b17
Content-Description: Delivery report
Content-Type: message/delivery-status

Reporting-MTA: dns; mx.example
Arrival-Date: Mon, 23 Nov 2026 09:00:00 +0000 (UTC)

Final-Recipient: rfc822; ${recipient}
Original-Recipient: rfc822;${recipient}
Action: ${action}
Status: ${status}
Remote-MTA: dns; inner.example
Diagnostic-Code: smtp; ${diagnostic}

--b17
Content-Description: Undelivered Message
Content-Type: message/rfc822

From: Shop <shop@example.org>
To: ${recipient}
Subject: Your order
${headerMessageId === undefined ? '' : `Message-ID: ${headerMessageId}\n`}
Thank you.

--b17--
`);
}

export interface ComplainedCopy {
  /** Null if it is redacted. */
  recipient: string | null;
  headerMessageId: string;
  type?: string;
  /** Additional header fields of the quoted message. */
  quoted?: string;
}

/** In the format of feedback loops. */
export function feedbackReport(copy: ComplainedCopy): Buffer {
  const { recipient, headerMessageId, type = 'abuse', quoted } = copy;
  return crlf(`From: <fbl@fbl.example>
To: <abuse@bounces.example>
Subject: FW: Your order
MIME-Version: 1.0
Content-Type: multipart/report; report-type=feedback-report; boundary="b18"

--b18
Content-Type: text/plain; charset=us-ascii

This is an abuse report for a message received from 192.0.2.1.

--b18
Content-Type: message/feedback-report

Feedback-Type: ${type}
User-Agent: Feedback/1.0
Version: 1
${recipient === null ? '' : `Original-Rcpt-To: <${recipient}>\n`}Arrival-Date: Mon, 23 Nov 2026 09:00:00 +0000

--b18
Content-Type: message/rfc822
Content-Disposition: inline

${quoted === undefined ? '' : `${quoted}\n`}From: Shop <shop@example.org>
To: ${recipient ?? 'redacted'}
Subject: Your order
Message-ID: ${headerMessageId}

Thank you.

--b18--
`);
}

/** With phrases that resemble a bounce. */
export function outOfOffice(recipient: string): Buffer {
  return crlf(`From: ${recipient}
To: shop@example.org
Subject: Automatic reply: Your order
Auto-Submitted: auto-replied (vacation)

I am away until Monday. Mail to my old address says 550 5.1.1 user unknown.
`);
}

/**
 * Returns a delivery report of this size in the format of Exchange: mostly the returned message, with the machine-readable fields at the
 * end.
 */
export function returning(bytes: number): Buffer {
  const head = crlf(`From: postmaster@exchange.example
To: undisclosed-recipients:;
Subject: Undeliverable: Your order
MIME-Version: 1.0
Content-Type: multipart/report; report-type=delivery-status; boundary="b19"

--b19
Content-Type: text/plain; charset=us-ascii

Delivery has failed to these recipients or groups: ann@example.com

--b19
Content-Type: message/rfc822

From: Shop <shop@example.org>
To: ann@example.com
Subject: Your order
Message-ID: <m@shop.example>
MIME-Version: 1.0
Content-Type: application/pdf
Content-Transfer-Encoding: base64

`);
  const tail = crlf(`
--b19
Content-Type: message/delivery-status

Reporting-MTA: dns; exchange.example

Final-Recipient: rfc822; ann@example.com
Action: failed
Status: 5.1.10
Diagnostic-Code: smtp; 550 5.1.10 RESOLVER.ADR.RecipientNotFound; Recipient not found

--b19--
`);
  const content = Buffer.alloc(bytes - head.length - tail.length, `${'QUJD'.repeat(19)}\r\n`);
  return Buffer.concat([head, content, tail]);
}
