/** Texts of an account’s settings. */
export const settings = {
  title: 'Settings',
  lead: 'Applies to Live and Sandbox. Changes take effect immediately.',
  onlyOwners: 'Only owners can change settings.',
  onlyLive: 'Settings are shared by Live and Sandbox, and changed in Live.',
  save: 'Save',
  saved: 'Settings saved',
  defaults: 'Sending',
  defaultFrom: 'Default sender',
  defaultFromHint:
    'Used when a request has no from address, e.g. Shop <orders@shop.example>. Leave blank to require one.',
  missing: 'Missing template variables',
  missingHint: 'What Postrider does when a variable has no value. A request can override this setting.',
  missingValues: {
    error: { name: 'Reject', does: 'The request fails and lists the missing variables.' },
    empty: { name: 'Leave blank', does: 'The variable is replaced with nothing.' },
    keep: { name: 'Keep placeholder', does: 'The recipient sees {{ name }}.' },
  },
  retain: 'Content retention',
  retainHint:
    'How long Postrider stores bodies and attachments after a message is delivered or fails. Events and metadata are kept.',
  retainValues: {
    none: { name: 'Don’t store', does: 'Deleted once the message is delivered or fails. It can’t be resent.' },
    '7d': { name: '7 days', does: 'Recommended for troubleshooting and resending.' },
    '30d': { name: '30 days', does: 'The maximum. Your operator can set a shorter limit.' },
  },
};

export const variables = {
  title: 'Account variables',
  lead: 'Available in every template. Values in a request take precedence.',
  known: {
    company_address_html: {
      name: 'Company address',
      does: 'Postal address for the footer, as HTML. Many countries require it by law.',
    },
    report_abuse_email_html: {
      name: 'Abuse contact',
      does: 'Where recipients can report abuse, as HTML, e.g. a link to abuse@shop.example.',
    },
  },
  unsubscribe: 'unsubscribe_email_html is built in: it contains each recipient’s unsubscribe link.',
  own: 'Custom variables',
  ownNone: 'No custom variables yet',
  nameOf: 'Variable name',
  nameHint: 'Letters, digits, and _',
  nameTaken: 'This name is already in use',
  nameWrong: 'Use letters, digits, and _. The name can’t start with a digit.',
  addNow: 'Add',
  remove: 'Remove',
  removeOf: (name: string) => `Remove ${name}`,
};
