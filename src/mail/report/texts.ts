/** Returns the readable texts of a message: its plain texts, else its html as text. */
import { htmlToText } from '../html/html-text.ts';
import type { ReceivedMail } from './received.ts';

const MAX_TEXT = 64_000;

/** In order, at most 64,000 characters in total. */
export function readableTexts(mail: ReceivedMail): string[] {
  const texts: string[] = [];
  let length = 0;
  for (const part of mail.parts) {
    if (!part.type.startsWith('text/plain') || length >= MAX_TEXT) continue;
    const text = part.text().slice(0, MAX_TEXT - length);
    length += text.length;
    if (text.trim() !== '') texts.push(text);
  }
  if (texts.length > 0) return texts;
  const broken = mail.parts.find((part) => part.type.startsWith('multipart/'));
  if (broken !== undefined) return [broken.text().slice(0, MAX_TEXT)];
  const html = mail.parts.find((part) => part.type === 'text/html');
  return html === undefined ? [] : [htmlToText(html.text()).slice(0, MAX_TEXT)];
}
