/** What is read about the settings of an account. */
export const settings = {
  title: 'Settings',
  lead: 'They are in force for live mail and the sandbox, on every node within a second.',
  onlyOwners: 'Only owners change settings. You can read them.',
  onlyLive: 'Settings belong to live mail and the sandbox alike.',
  save: 'Save',
  saved: 'Settings saved',
  defaults: 'Sending',
  defaultFrom: 'Default sender',
  defaultFromHint:
    'Used when a send names no from. Such as: Shop <orders@shop.example>. Empty: every send names its own.',
  missing: 'Variables without a value',
  missingHint: 'What happens when a mail would print a variable that has none. A send can say otherwise.',
  missingValues: {
    error: { name: 'Refuse', does: 'The send is refused and lists what is missing. Nothing half filled leaves.' },
    empty: { name: 'Leave empty', does: 'Nothing is printed in its place.' },
    keep: { name: 'Keep the source', does: 'The recipient sees {{ name }} as it stands in the template.' },
  },
  retain: 'Content of messages',
  retainHint: 'How long text, html and files are kept after a message is settled. Its events and addresses stay.',
  retainValues: {
    none: { name: 'Not at all', does: 'Removed as soon as the message is delivered or given up. It cannot be resent.' },
    '7d': { name: '7 days', does: 'Enough to look into a question, or to resend.' },
    '30d': { name: '30 days', does: 'The longest. The service may keep less, if its operator says so.' },
  },
};

export const variables = {
  title: 'Variables of the account',
  lead: 'Every template can print them. A value given with a send wins.',
  known: {
    company_address_html: {
      name: 'Company address',
      does: 'Your postal address as HTML, for the footer. Many countries ask for it in mail to customers.',
    },
    report_abuse_email_html: {
      name: 'Address to report abuse',
      does: 'Where recipients complain, as HTML, such as a link to abuse@shop.example.',
    },
  },
  unsubscribe: 'unsubscribe_email_html is always there: the link of each recipient. It cannot be set.',
  own: 'Your own',
  ownNone: 'None yet.',
  nameOf: 'Name of the new variable',
  nameHint: 'Letters, digits and _',
  nameTaken: 'This name is taken',
  nameWrong: 'Letters, digits and _, and no digit in front',
  addNow: 'Add',
  remove: 'Remove',
  removeOf: (name: string) => `Remove ${name}`,
};
