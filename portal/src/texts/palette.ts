export const palette = {
  placeholder: 'Address, subject, message id or page',
  nothing: 'Nothing found',
  operator: 'Run the service',
  pages: 'Pages',
  mail: 'Mail',
  noSubject: '(no subject)',
  message: (id: string) => `Open ${id}`,
  all: (text: string) => `Show all mail with “${text}”`,
};
