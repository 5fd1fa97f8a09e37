export const palette = {
  placeholder: 'Search emails, pages, message IDs…',
  nothing: 'No results',
  operator: 'Operator',
  pages: 'Pages',
  mail: 'Mail',
  noSubject: '(no subject)',
  message: (id: string) => `Open ${id}`,
  all: (text: string) => `Search emails for “${text}”`,
};
