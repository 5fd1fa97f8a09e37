/** The variables that every template may use without a send giving them: the account's own, and those that always exist. */

/** Exist before the account has set them. The unsubscribe link is each recipient's own and made with the mail. */
const ALWAYS: Readonly<Record<string, string>> = { company_address_html: '', report_abuse_email_html: '' };

/** A new object with the account's variables, to which the caller may add. */
export function accountVariables(own: Readonly<Record<string, string>>): Record<string, string> {
  return { ...ALWAYS, ...own };
}
