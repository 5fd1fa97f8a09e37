/**
 * CFBL-Address (RFC 9477): the address to which a mailbox provider may report that a recipient marked a message as spam, without an agreed
 * feedback loop. It is the return path of the copy, so a report does not need to name the recipient. The token proves that the reporter has
 * the message; the signature of the report (§3.5) is not checked.
 *
 * Providers trust the field if its address is below the domain of From and that domain has signed the field (§3.1.2, §3.1.4). So only
 * messages with a return path in the sender's domain have it. Messages submitted by SMTP are sent unchanged, and a field set by the sender
 * is kept: there can be only one (§3.2).
 */

/** Returns the field for a copy; empty if `mailFrom` is in another domain than complaints may be sent to. */
export function feedbackFields(mailFrom: string, domain: string | undefined): string {
  return domain !== undefined && mailFrom.endsWith(`@${domain}`) ? `CFBL-Address: ${mailFrom};\r\n report=arf\r\n` : '';
}
