const ESCAPABLE = /[&<>"']/;
const ESCAPES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&#34;', "'": '&#39;' };

/** Escapes text for element content and quoted attributes. */
export function escapeHtml(text: string): string {
  return ESCAPABLE.test(text) ? text.replace(/[&<>"']/g, (character) => ESCAPES[character]!) : text;
}
