/** What is read about the settings of an account. */
export const settings = {
  title: 'Settings',
  lead: 'Applies to Live and Sandbox. Changes take effect immediately.',
  onlyOwners: 'Only owners can change settings.',
  onlyLive: 'Settings are shared by Live and Sandbox.',
  save: 'Save',
  saved: 'Settings saved',
  defaults: 'Sending',
  defaultFrom: 'Default sender',
  defaultFromHint:
    'Used when a request has no from address, e.g. Shop <orders@shop.example>. Leave empty to require one.',
  missing: 'Missing template variables',
  missingHint: 'What to do when a variable has no value. Can be overridden per request.',
  missingValues: {
    error: { name: 'Refuse', does: 'The send is refused and lists what is missing. Nothing half filled leaves.' },
    empty: { name: 'Leave empty', does: 'Leave blank — The variable is replaced with nothing.' },
    keep: { name: 'Keep the source', does: 'Keep placeholder — The recipient sees {{ name }}.' },
  },
  retain: 'Content retention',
  retainHint: 'How long to store email bodies and attachments after a message is delivered or fails. Events and metadata are kept.',
  retainValues: {
    none: { name: 'Not at all', does: 'Don’t store — Deleted once the message is delivered or fails. It can’t be resent.' },
    '7d': { name: '7 days', does: '7 days — Recommended for troubleshooting and resending.' },
    '30d': { name: '30 days', does: '30 days — Maximum. Your operator may set a shorter limit.' },
  },
};

export const variables = {
  title: 'Account variables',
  lead: 'Available in every template. Values in a request take precedence.',
  known: {
    company_address_html: {
      name: 'Company address',
      does: 'Postal address for the footer (HTML). Required by law in many countries.',
    },
    report_abuse_email_html: {
      name: 'Abuse contact',
      does: 'Where recipients can report abuse (HTML), e.g. a link to abuse@shop.example.',
    },
  },
  unsubscribe: 'unsubscribe_email_html is built in and contains each recipient’s unsubscribe link.',
  own: 'Custom variables',
  ownNone: 'None yet.',
  nameOf: 'Variable name',
  nameHint: 'Letters, digits and _',
  nameTaken: 'This name is already in use',
  nameWrong: 'Use letters, digits and _; must not start with a digit.',
  addNow: 'Add',
  remove: 'Remove',
  removeOf: (name: string) => `Remove ${name}`,
};
