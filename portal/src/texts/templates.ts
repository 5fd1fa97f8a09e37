/** What is read on the pages of templates. */
import type { Part, VariableType } from '../pages/templates/content.ts';

export const parts: Record<Part, string> = { subject: 'Subject', html: 'HTML', text: 'Text' };

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
  lead: 'Subject, html and text under a name. A send names the template and gives the values.',
  label: 'Templates, newest first',
  name: 'Name',
  subject: 'Subject',
  noSubject: 'Each send gives it',
  type: 'Type',
  version: 'Version',
  updated: 'Updated',
  where: 'Where',
  live: 'Live',
  sandboxOnly: 'Sandbox only',
  layout: 'Layout',
  find: 'Find by name',
  nothing: 'No template has such a name',
  nothingHint: 'The search looks at names, without case.',
  empty: 'No templates yet',
  emptyHint: 'With a template the words of a mail can change while the program that sends it stays as it is.',
  sandboxNote: 'Live templates can be read and sent here, not changed. What you make here exists in the sandbox only.',
  create: 'New template',
  remove: (name: string) => `Delete ${name}`,
  removed: (name: string) => `${name} is deleted, with its versions. Mail that was accepted stays as it is.`,
  actions: 'Actions',
};

export const create = {
  title: 'New template',
  name: 'Name',
  nameHint: 'Programs send it by this name. It can be changed later.',
  type: 'Type',
  typeHint: 'Transactional mail answers something a person did. Marketing is everything else.',
  start: 'Start with',
  starts: { mail: 'A short mail', layout: 'A layout for others', empty: 'Nothing' },
  submit: 'Make the template',
  sandbox: 'It will exist in the sandbox only.',
};

/** What a new template begins with. */
export const starts = {
  mail: {
    subject: 'Hello {{ name }}',
    html: '<p>Hello {{ name }},</p>\n<p>write here what there is to say.</p>\n',
  },
  layout: {
    subject: '',
    html: '<div style="max-width: 36rem; margin: 0 auto; font-family: sans-serif">\n  {{ content }}\n  <hr>\n  <small>{{ company_address_html }}</small>\n</div>\n',
  },
  empty: { subject: '', html: '<p></p>\n' },
};

export const page = {
  version: (version: number) => `Version ${version}`,
  views: { write: 'Write', versions: 'Versions', use: 'Where used' },
  view: 'View of the template',
  save: 'Save',
  saveAs: (version: number) => `Save as version ${version}`,
  saved: (version: number) => `Saved as version ${version}. Sends use it from now on.`,
  notSaved: 'It was not saved',
  unsaved: 'Not saved yet',
  unsavedHint: 'Changes are kept in this browser until you save or discard them.',
  left: (name: string) => `Your changes to ${name} are not saved. This browser keeps them for your next visit.`,
  notKept: 'These changes are too large for this browser to keep. Save them before you leave the page.',
  takenUp: 'These are your unsaved changes of',
  discard: 'Discard changes',
  discarded: 'Changes discarded',
  behind: (version: number) =>
    `Somebody saved version ${version} while you were writing. Compare it with yours under Versions. Saving makes a new version; theirs stays in the list.`,
  compare: 'Compare',
  remove: 'Delete',
  more: 'More actions',
  readOnly: 'Your role may read templates. To change them, ask an owner to make you a member.',
  live: 'This is a live template. In the sandbox it can be sent and looked at, not changed.',
  liveHint:
    'Switch to Live to change it, or try a change on a copy: here, the copy stands before the live one of the same name.',
  toLive: 'Open in Live',
  copy: 'Make a sandbox copy',
  sandboxOnly: 'Sandbox only',
  sandboxOnlyHint: 'Live mail does not see this template.',
};

export const write = {
  tabs: { html: 'Subject and HTML', text: 'Text', variables: 'Variables', details: 'Details' },
  tab: 'Part of the template',
  mistakes: 'has a mistake',
  subject: 'Subject',
  subjectHint: 'Left empty, each send gives it.',
  html: 'HTML',
  text: 'Text',
  textHint: 'Left empty, the text is made of the HTML.',
  name: 'Name',
  type: 'Type',
  layout: 'Layout',
  layoutHint: 'Its HTML stands around this one, where the layout has {{ content }}.',
  noLayout: 'No layout',
  isLayout: 'Other templates can use this one as their layout: it has {{ content }}.',
};

export const variables = {
  lead: 'A declared variable has a type, and may have a default. A required one without a value is refused, whatever the account says.',
  label: 'Variables of the template',
  name: 'Name',
  type: 'Type',
  required: 'Required',
  default: 'Default',
  noDefault: 'None',
  add: 'Add a variable',
  remove: (name: string) => `Remove ${name || 'the variable'}`,
  nameOf: (index: number) => `Name of variable ${index}`,
  typeOf: (name: string) => `Type of ${name}`,
  requiredOf: (name: string) => `Required: ${name}`,
  defaultOf: (name: string) => `Default of ${name}`,
  found: 'In the text, and not declared yet',
  declare: (name: string) => `Declare ${name}`,
  declareAll: 'Declare all',
  empty: 'No variables are declared. Undeclared ones work, too: they take any value.',
};

export const values = {
  invalid: {
    string: 'This is no text',
    number: 'Write a number, such as 17 or 2.5',
    boolean: 'Write true or false',
    array: 'Write a list as JSON, such as [{ "name": "Tea" }]',
    object: 'Write an object as JSON, such as { "number": 17 }',
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
  noSubject: 'No subject: each send gives it',
  nothing: 'There is nothing to show yet.',
  failed: 'The preview stays as it was.',
  missing: (names: readonly string[]) =>
    names.length === 1 ? `${names[0]} has no value.` : `${names.length} variables have no value: ${names.join(', ')}.`,
  missingHint: 'A send without a value is refused, unless it says otherwise. Give one to look at under Sample values.',
  viewer: 'Your role sees the template without values filled in.',
};

export const samples = {
  title: 'Sample values',
  first: 'First sample',
  set: 'Sample set',
  kept: 'Sample sets are kept in this browser, for this template.',
  add: 'New set',
  addSubmit: 'Add',
  addHint: 'It begins with the values of this one.',
  name: 'Name of the set',
  taken: 'There is a set of this name',
  remove: (name: string) => `Delete ${name}`,
  removed: (name: string) => `${name} is deleted`,
  fields: 'Fields',
  json: 'JSON',
  as: 'Show the values as',
  jsonLabel: 'Values as JSON',
  jsonWrong: 'This is no JSON object yet. The preview stays as it was.',
  noFields: 'The template asks for no values.',
  missing: 'Has no value',
  byDefault: (value: unknown) => `Without one: ${typeof value === 'string' ? value : JSON.stringify(value)}`,
};

export const versions = {
  label: 'Versions, newest first',
  version: 'Version',
  saved: 'Saved',
  changed: 'Changed',
  first: 'First version',
  nothing: 'Nothing',
  present: 'Present',
  actions: 'Actions',
  fields: {
    ...parts,
    name: 'Name',
    type: 'Type',
    layoutTemplateId: 'Layout',
    variables: 'Variables',
  },
  restore: (version: number) => `Restore version ${version}`,
  restored: (version: number, of: number) =>
    `Version ${version} says what version ${of} said. Sends use it from now on.`,
  restoreShort: 'Restore',
  compareShort: 'Compare',
  compareWith: (version: number) => `Compare version ${version} with the one before`,
  title: 'Compare two versions',
  before: 'Before',
  after: 'After',
  unsaved: 'Not saved yet',
  part: 'Part',
  view: 'View',
  unified: 'One text',
  sideBySide: 'Side by side',
  same: 'Both say the same here.',
  only: 'There is one version. After the next save, the two can be compared here.',
};

export const use = {
  title: 'Last 30 days',
  lead: 'Counted by day (UTC), in this mode.',
  accepted: 'Accepted',
  delivered: 'Delivered',
  bounced: 'Bounced',
  delayed: 'Delayed',
  suppressed: 'Suppressed',
  complained: 'Complained',
  none: 'No mail was made with this template in the last 30 days.',
  messages: (count: string) => `Show the messages (${count})`,
  layout: 'As a layout',
  layoutOf: 'These templates stand in this one. A change to it is in their next mail.',
  layoutNone: 'No template has this one as its layout.',
};

export const test = {
  open: 'Send a test',
  title: 'Send a test',
  from: 'From',
  fromHint: 'An address of a verified domain.',
  fromSandbox: 'Any address will do in the sandbox.',
  to: 'To',
  set: 'Sample set',
  live: 'This is real mail: it leaves, and counts as any other.',
  sandbox: 'Nothing leaves this machine. The mail goes to the inbox of the sandbox.',
  unsaved: (version: number) =>
    `This sends version ${version} as it is saved, without your changes. Save first to send those.`,
  submit: 'Send it',
  sent: (to: string) => `The test to ${to} is accepted.`,
  suppressed: (to: string) => `${to} is suppressed: the mail was accepted and will not be sent.`,
  toInbox: 'Look at it in the inbox',
  toMessage: 'Follow the message',
};
