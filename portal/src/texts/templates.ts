/** Texts of the pages about templates. */
import type { Answer } from '../../../clients/typescript/src/call.ts';
import { quoted } from './quoted.ts';

type VariableType = Answer<'getTemplate'>['variables'][number]['type'];

export const parts = { subject: 'Subject', mjml: 'MJML', html: 'HTML', text: 'Text' };

export const types = { transactional: 'Transactional', marketing: 'Marketing' };

export const variableTypes: Record<VariableType, string> = {
  string: 'Text',
  number: 'Number',
  boolean: 'True or false',
  array: 'List',
  object: 'Object',
};

export const list = {
  title: 'Templates',
  lead: 'Reusable email content with variables.',
  label: 'Templates, newest first',
  name: 'Name',
  subject: 'Subject',
  noSubject: 'Set per request',
  type: 'Type',
  version: 'Version',
  updated: 'Updated',
  where: 'Mode',
  live: 'Live',
  sandboxOnly: 'Sandbox only',
  layout: 'Layout',
  find: 'Search templates',
  nothing: 'No templates match your search',
  empty: 'No templates yet',
  emptyHint: 'Edit email content without changing your code.',
  sandboxNote: 'Live templates are read-only in the sandbox. New templates exist in the sandbox only.',
  create: 'Create template',
  remove: (name: string) => `Delete ${quoted(name)}`,
  removed: (name: string) => `${quoted(name)} deleted. Accepted emails aren’t affected.`,
};

export const create = {
  title: 'Create template',
  name: 'Name',
  nameHint: 'API requests can use this name. If you rename the template, update them.',
  type: 'Type',
  typeHint: 'Transactional: triggered by something the recipient did. Marketing: everything else.',
  start: 'Start from',
  starts: {
    mail: 'Basic email',
    reset: 'Password reset',
    welcome: 'Welcome',
    receipt: 'Receipt',
    invoice: 'Invoice',
    alert: 'Alert',
    mjml: 'MJML email',
    layout: 'Layout',
    empty: 'Blank',
  },
  sampleValues: 'Example',
  submit: 'Create template',
  sandbox: 'The template will exist in the sandbox only.',
};

/** Content of a new template. */
export const starts = {
  mail: {
    subject: 'Hello {{ name }}',
    html: '<p>Hello {{ name }},</p>\n<p>Write your message here.</p>\n',
  },
  layout: {
    subject: '',
    html: '<div style="max-width: 36rem; margin: 0 auto; font-family: sans-serif">\n  {{ content }}\n  <hr>\n  <small>{{ company_address_html }}</small>\n</div>\n',
  },
  empty: { subject: '', html: '<p></p>\n' },
  mjml: {
    subject: 'Hello {{ name }}',
    html: '',
    mjml: `<mjml>
  <mj-head>
    <mj-title>Hello {{ name }}</mj-title>
    <mj-preview>Shown next to the subject in the inbox.</mj-preview>
    <mj-attributes>
      <mj-all font-family="Helvetica, Arial, sans-serif" />
      <mj-text font-size="16px" line-height="24px" />
    </mj-attributes>
  </mj-head>
  <mj-body background-color="#f4f4f5">
    <mj-section background-color="#ffffff" padding="32px 16px">
      <mj-column>
        <mj-text>Hello {{ name }},</mj-text>
        <mj-text>Write your message here.</mj-text>
        <mj-button href="https://example.com" background-color="#2f5d8a">Open</mj-button>
      </mj-column>
    </mj-section>
  </mj-body>
</mjml>
`,
  },
};

export const page = {
  version: (version: number) => `Version ${version}`,
  views: { write: 'Edit', versions: 'Versions', use: 'Usage' },
  view: 'Template view',
  save: 'Save',
  saveAs: (version: number) => `Save as version ${version}`,
  saved: (version: number) => `Saved as version ${version}. New emails use it immediately.`,
  notSaved: 'Couldn’t save',
  unsaved: 'Unsaved changes',
  unsavedHint: 'Your draft is stored in this browser.',
  left: (name: string) => `Your unsaved changes to ${quoted(name)} are stored in this browser.`,
  notKept: 'This draft is too large to store in this browser. Save it before you leave the page.',
  draftRestored: 'Restored your draft from',
  discard: 'Discard changes',
  discarded: 'Changes discarded',
  behind: (version: number) =>
    `Version ${version} was saved while you were editing. Compare it under Versions. Saving creates a new version.`,
  compare: 'Compare',
  remove: 'Delete',
  more: 'More actions',
  readOnly: 'You have read-only access to templates.',
  live: 'Live template (read-only in the sandbox)',
  liveHint:
    'Switch to Live to edit it, or create a sandbox copy. In the sandbox, the copy replaces the live template of the same name.',
  toLive: 'Open in Live',
  copy: 'Create sandbox copy',
  sandboxOnly: 'Sandbox only',
  sandboxOnlyHint: 'This template isn’t available in Live.',
};

export const write = {
  tabs: { html: 'Subject and HTML', text: 'Text', variables: 'Variables', details: 'Details' },
  tab: 'Template part',
  mistakes: 'has errors',
  subject: 'Subject',
  subjectHint: 'Leave blank to set it per request.',
  html: 'HTML',
  mjml: 'MJML',
  mjmlHint: 'The HTML is generated from MJML when you save.',
  toHtml: 'Convert to HTML',
  toHtmlUnsaved: 'Save or discard your changes first.',
  text: 'Text',
  textHint: 'Leave blank to generate it from the HTML.',
  name: 'Name',
  type: 'Type',
  layout: 'Layout',
  layoutHint: 'The layout wraps this template at {{ content }}.',
  noLayout: 'No layout',
  isLayout: 'Other templates can use this one as a layout: it contains {{ content }}.',
};

export const variables = {
  lead: 'Declare a variable to set its type and default. Requests without a required variable are rejected.',
  label: 'Template variables',
  name: 'Name',
  type: 'Type',
  required: 'Required',
  default: 'Default',
  noDefault: 'None',
  add: 'Add variable',
  remove: (name: string) => `Remove ${name || 'the variable'}`,
  nameOf: (index: number) => `Name of variable ${index}`,
  typeOf: (name: string) => `Type of ${name}`,
  requiredOf: (name: string) => `Required: ${name}`,
  defaultOf: (name: string) => `Default of ${name}`,
  found: 'Used but not declared',
  declare: (name: string) => `Declare ${name}`,
  declareAll: 'Declare all',
  empty: 'No declared variables. Undeclared variables accept any value.',
};

export const values = {
  invalid: {
    string: 'Enter text',
    number: 'Enter a number, e.g. 17 or 2.5',
    boolean: 'Enter true or false',
    array: 'Enter a JSON array, e.g. [{ "name": "Tea" }]',
    object: 'Enter a JSON object, e.g. { "number": 17 }',
  } satisfies Record<VariableType, string>,
  none: 'No value',
  yes: 'true',
  no: 'false',
};

export const previewing = {
  title: 'Preview',
  editor: 'Editor',
  part: 'Part of the preview',
  html: 'HTML',
  text: 'Text',
  subject: 'Subject',
  noSubject: 'No subject (set per request)',
  nothing: 'Nothing to preview yet',
  failed: 'Preview not updated',
  missing: (names: readonly string[]) => `Missing ${names.length === 1 ? 'value' : 'values'}: ${names.join(', ')}.`,
  missingHint:
    'Requests without a value are rejected, unless they override this setting. To preview the template, add a value under Test data.',
  viewer: 'Viewers see the template without test data.',
};

export const samples = {
  title: 'Test data',
  first: 'Default',
  set: 'Test data set',
  kept: 'Saved with the template, for all users of the account. It doesn’t create a version.',
  keptHere: 'You can’t change this template, so changes aren’t saved.',
  add: 'New set',
  addSubmit: 'Create set',
  addHint: 'Starts as a copy of the current set.',
  name: 'Set name',
  taken: 'This name is already in use',
  remove: (name: string) => `Delete ${quoted(name)}`,
  removed: (name: string) => `${quoted(name)} deleted`,
  merged: 'Another user has changed the test data too. Both changes are saved.',
  fields: 'Fields',
  json: 'JSON',
  as: 'Show the values as',
  jsonLabel: 'Values as JSON',
  jsonWrong: 'Invalid JSON. Preview not updated.',
  noFields: 'This template has no variables.',
  missing: 'Required',
  byDefault: (value: unknown) => `Default: ${typeof value === 'string' ? value : JSON.stringify(value)}`,
};

export const versions = {
  label: 'Versions, newest first',
  version: 'Version',
  saved: 'Saved',
  changed: 'Changed',
  first: 'First version',
  nothing: 'No changes',
  present: 'Current',
  fields: {
    ...parts,
    name: 'Name',
    type: 'Type',
    layoutTemplateId: 'Layout',
    variables: 'Variables',
  },
  restore: (version: number) => `Restore version ${version}`,
  restored: (version: number, of: number) => `Restored version ${of} as version ${version}.`,
  restoreShort: 'Restore',
  compareShort: 'Compare',
  compareWith: (version: number) => `Compare version ${version} with the previous one`,
  title: 'Compare versions',
  before: 'Before',
  after: 'After',
  unsaved: 'Unsaved changes',
  part: 'Part',
  view: 'View',
  unified: 'Unified',
  sideBySide: 'Split',
  same: 'No differences',
  only: 'Only one version so far.',
};

export const use = {
  title: 'Last 30 days',
  lead: 'Daily totals in UTC.',
  accepted: 'Accepted',
  delivered: 'Delivered',
  bounced: 'Bounced',
  delayed: 'Delayed',
  suppressed: 'Suppressed',
  complained: 'Complaints',
  none: 'Not used in the last 30 days.',
  messages: (count: string) => `View messages (${count})`,
  layout: 'As a layout',
  layoutOf: 'Used as the layout of these templates. Changes apply to their next emails.',
  layoutNone: 'Not used as a layout.',
};

export const test = {
  open: 'Send test email',
  title: 'Send test email',
  from: 'From',
  fromHint: 'Must use a verified domain.',
  fromSandbox: 'Any address works in the sandbox.',
  to: 'To',
  toHint: 'Separate up to 10 addresses with commas. Each gets its own email.',
  set: 'Test data set',
  live: 'Sends a real email that counts toward your usage.',
  sandbox: 'The email arrives in the sandbox inbox only.',
  unsaved: (version: number) => `Sends version ${version} as saved. Save first to include your changes.`,
  submit: 'Send test',
  sent: (to: string) => `Test email to ${to} accepted`,
  tooMany: 'Enter at most 10 addresses.',
  suppressed: (to: string) => `${to} is suppressed, so the email won’t be sent.`,
  toInbox: 'View in inbox',
  toMessage: 'View message',
};

export const share = {
  open: 'Share preview',
  title: 'Share a preview',
  lead: 'Anyone with the link can view the rendered email without signing in. Changes you make later don’t appear.',
  unsaved: 'The link shows your unsaved changes.',
  set: 'Test data set',
  version: (version: number) => `Version ${version}`,
  unsavedVersion: 'Unsaved changes',
};

export const shares = {
  title: 'Shared previews',
  lead: 'Anyone with one of these links can view its preview. Share a template on its page.',
  template: 'Template',
  version: 'Version',
  openTemplate: 'Open template',
  noneHint: 'Links you create with Share preview on a template appear here until they expire or are revoked.',
};

export const shared = {
  pageTitle: 'Shared preview',
  readOnly: (name: string, version: string) =>
    `Preview of the template ${quoted(name)} (${version}), shared by its author.`,
  rendered: (at: string) => `Rendered ${at}.`,
};
