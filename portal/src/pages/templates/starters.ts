/**
 * Content to start a template from, with sample values. The HTML uses tables and inline styles, since Outlook renders with Word and Gmail
 * removes style sheets in forwarded mail. Loaded when a template is created from one of them.
 */
import type { Content, Variable } from './content.ts';
import type { Values } from './values.ts';

export interface Starter extends Pick<Content, 'subject' | 'html' | 'variables'> {
  sample: Values;
}

const FONT = "font-family: -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif;";
const TEXT = `${FONT} font-size: 16px; line-height: 24px; color: #27272a;`;
const SMALL = `${FONT} font-size: 13px; line-height: 20px; color: #71717a;`;
const LINE = 'border-top: 1px solid #e4e4e7;';

const heading = (text: string): string =>
  `<h1 style="margin: 0 0 16px; ${FONT} font-size: 22px; line-height: 30px; font-weight: 600; color: #18181b;">${text}</h1>`;
const paragraph = (text: string): string => `<p style="margin: 0 0 16px; ${TEXT}">${text}</p>`;
const note = (text: string): string => `<p style="margin: 0; ${SMALL}">${text}</p>`;

/** The padding is on the cell, because Outlook ignores it on links. */
const button = (
  label: string,
  url: string,
): string => `<table role="presentation" cellpadding="0" cellspacing="0" border="0" style="margin: 8px 0 24px;">
                  <tr>
                    <td bgcolor="#18181b" style="border-radius: 6px; padding: 12px 20px;">
                      <a href="${url}" style="${FONT} font-size: 16px; line-height: 20px; font-weight: 600; color: #ffffff; text-decoration: none;">${label}</a>
                    </td>
                  </tr>
                </table>`;

const itemRows = `<table role="presentation" width="100%" cellpadding="0" cellspacing="0" border="0" style="margin: 0 0 24px;">
                  {% for item in items %}
                  <tr>
                    <td style="padding: 10px 0; ${LINE} ${TEXT}">{{ item.name }}{% if item.quantity > 1 %} × {{ item.quantity }}{% endif %}</td>
                    <td align="right" style="padding: 10px 0; ${LINE} ${TEXT}">{{ item.price }}</td>
                  </tr>
                  {% endfor %}
                  <tr>
                    <td style="padding: 10px 0; ${LINE} ${TEXT} font-weight: 600;">Total</td>
                    <td align="right" style="padding: 10px 0; ${LINE} ${TEXT} font-weight: 600;">{{ total }}</td>
                  </tr>
                </table>`;

/** The preheader is what inboxes show next to the subject. Outlook ignores max-width, so it gets a table of its own. */
const mail = (preheader: string, ...parts: readonly string[]): string => `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title>{{ company_name }}</title>
  </head>
  <body style="margin: 0; padding: 0; background: #f4f4f5;">
    <div style="display: none; max-height: 0; overflow: hidden;">${preheader}</div>
    <table role="presentation" width="100%" cellpadding="0" cellspacing="0" border="0" bgcolor="#f4f4f5">
      <tr>
        <td align="center" style="padding: 32px 12px;">
          <!--[if mso]><table role="presentation" width="560" cellpadding="0" cellspacing="0" border="0"><tr><td><![endif]-->
          <table role="presentation" width="100%" cellpadding="0" cellspacing="0" border="0" bgcolor="#ffffff" style="max-width: 560px; border-radius: 8px;">
            <tr>
              <td align="left" style="padding: 32px;">
                <p style="margin: 0 0 24px; ${FONT} font-size: 15px; line-height: 20px; font-weight: 600; color: #18181b;">{{ company_name }}</p>
                ${parts.join('\n                ')}
              </td>
            </tr>
          </table>
          <!--[if mso]></td></tr></table><![endif]-->
          <p style="margin: 16px 0 0; ${SMALL}">{{ company_name }}<br>{{ company_address_html }}</p>
        </td>
      </tr>
    </table>
  </body>
</html>
`;

const variable = (name: string, more: Partial<Variable> = {}): Variable => ({
  name,
  type: 'string',
  required: true,
  ...more,
});
const COMPANY = variable('company_name', { required: false, default: 'Your company' });
const NAME = variable('name', { required: false, default: 'there' });
const ITEMS = [
  { name: 'Ceramic mug', quantity: 2, price: '€24.00' },
  { name: 'Delivery', quantity: 1, price: '€4.90' },
];

export const starters = {
  reset: {
    subject: 'Reset your {{ company_name }} password',
    html: mail(
      'The link is valid for {{ expires_in_minutes }} minutes.',
      heading('Reset your password'),
      paragraph('Hello {{ name }}, someone asked to reset the password of your account. Choose a new one here:'),
      button('Choose a new password', '{{ reset_url }}'),
      note(
        'The link is valid for {{ expires_in_minutes }} minutes and works once. If you did not ask for it, ignore this email: your password stays the same.',
      ),
    ),
    variables: [
      COMPANY,
      NAME,
      variable('reset_url'),
      variable('expires_in_minutes', { type: 'number', required: false, default: 60 }),
    ],
    sample: { company_name: 'Acme', name: 'Ann', reset_url: 'https://app.example.com/reset?token=sample' },
  },
  welcome: {
    subject: 'Welcome to {{ company_name }}',
    html: mail(
      'Your account is ready.',
      heading('Welcome, {{ name }}'),
      paragraph('Your account is ready. The first step takes two minutes:'),
      button('Get started', '{{ start_url }}'),
      note('Questions? Reply to this email.'),
    ),
    variables: [COMPANY, NAME, variable('start_url')],
    sample: { company_name: 'Acme', name: 'Ann', start_url: 'https://app.example.com/start' },
  },
  receipt: {
    subject: 'Your receipt for order {{ order_number }}',
    html: mail(
      'Thank you for your order of {{ total }}.',
      heading('Thank you for your order'),
      paragraph('Hello {{ name }}, we received your payment for order {{ order_number }} on {{ date }}.'),
      itemRows,
      button('View your order', '{{ order_url }}'),
      note('Keep this email as your receipt.'),
    ),
    variables: [
      COMPANY,
      NAME,
      variable('order_number'),
      variable('date'),
      variable('items', { type: 'array' }),
      variable('total'),
      variable('order_url'),
    ],
    sample: {
      company_name: 'Acme',
      name: 'Ann',
      order_number: '1042',
      date: 'November 28, 2026',
      items: ITEMS,
      total: '€28.90',
      order_url: 'https://app.example.com/orders/1042',
    },
  },
  invoice: {
    subject: 'Invoice {{ invoice_number }} from {{ company_name }}',
    html: mail(
      '{{ total }}, due on {{ due_date }}.',
      heading('Invoice {{ invoice_number }}'),
      paragraph('Hello {{ name }}, here is your invoice. Please pay {{ total }} by {{ due_date }}.'),
      itemRows,
      button('Pay the invoice', '{{ payment_url }}'),
      note('Already paid? Then there is nothing to do.'),
    ),
    variables: [
      COMPANY,
      NAME,
      variable('invoice_number'),
      variable('due_date'),
      variable('items', { type: 'array' }),
      variable('total'),
      variable('payment_url'),
    ],
    sample: {
      company_name: 'Acme',
      name: 'Ann',
      invoice_number: '2026-118',
      due_date: 'December 12, 2026',
      items: ITEMS,
      total: '€28.90',
      payment_url: 'https://app.example.com/invoices/2026-118',
    },
  },
  alert: {
    subject: '{{ title }}',
    html: mail(
      '{{ message }}',
      heading('{{ title }}'),
      paragraph('{{ message }}'),
      button('View details', '{{ details_url }}'),
      note('{{ company_name }} sent this alert at {{ time }}.'),
    ),
    variables: [COMPANY, variable('title'), variable('message'), variable('details_url'), variable('time')],
    sample: {
      company_name: 'Acme',
      title: 'New sign-in to your account',
      message: 'Someone signed in to your account from Firefox on Linux. If this was not you, change your password.',
      details_url: 'https://app.example.com/security',
      time: '09:44 UTC',
    },
  },
} satisfies Record<string, Starter>;

export type StarterName = keyof typeof starters;
