/**
 * CFBL-Address (RFC 9477): where a mailbox provider may report that a recipient called the mail spam, without having been asked for
 * a feedback loop. It is the return path of the copy, so that a report needs to name nobody. The token proves that its author
 * has the mail; that the report itself is signed (§3.5) is not looked at.
 *
 * Providers believe the field where the address is of a name below the domain of From, and that domain itself has signed the field
 * (§3.1.2, §3.1.4). So only mail whose return path is of a name of the sender's asks for them. Mail from SMTP is sent as it was
 * submitted, and mail that has the field from its sender keeps that one: there is one at most (§3.2).
 */

/** The field for a copy; empty where `mailFrom` is of another domain than complaints may be sent to. */
export function feedbackFields(mailFrom: string, domain: string | undefined): string {
  return domain !== undefined && mailFrom.endsWith(`@${domain}`) ? `CFBL-Address: ${mailFrom};\r\n report=arf\r\n` : '';
}
