/**
 * Text as it grows from the words of an html: white space collapses, line breaks and indents wait for the next word, so that blocks
 * without words leave nothing behind. Never more than one empty line in a row, no white space at the end of a line.
 */

const SPACES = /[ \t\r\n\f\u200b]+/g;
const UNCOLLAPSED = /[\t\r\n\f\u200b]| {2}/;
/** Further indents count for nothing. */
const MAX_INDENT = 40;

export class TextLines {
  readonly #pieces: string[] = [];
  /** What waits before the next word: line breaks, or else a space. */
  #breaks = 0;
  #space = false;
  /** What each line begins with. */
  #prefix = '';
  /** The same for the next line, which may have the markers of list items. */
  #lead = '';
  /** The shortest prefix since the last word: what an empty line begins with. */
  #gap = '';

  /** Words, with their white space collapsed. */
  add(text: string): void {
    const collapsed = UNCOLLAPSED.test(text) ? text.replace(SPACES, ' ') : text;
    if (collapsed === '') return;
    const startsWithSpace = collapsed.charCodeAt(0) === 32;
    if (startsWithSpace) this.#space = true;
    if (collapsed === ' ') return;
    const endsWithSpace = collapsed.charCodeAt(collapsed.length - 1) === 32;
    this.#begin();
    this.#pieces.push(collapsed.slice(startsWithSpace ? 1 : 0, endsWithSpace ? -1 : undefined));
    this.#space = endsWithSpace;
  }

  /** Lines whose white space stays. */
  addPreformatted(text: string): void {
    for (const [index, line] of text.split(/\r\n|\r|\n/).entries()) {
      if (index > 0) this.breakLine();
      if (line === '') continue;
      this.#begin();
      this.#pieces.push(line);
    }
  }

  /** Puts text right behind the last word. */
  append(text: string): void {
    this.#pieces.push(text);
  }

  breakLine(): void {
    this.#breaks += 1;
    this.#space = false;
  }

  /** At least so many line breaks before the next word. */
  breakBlock(breaks: number): void {
    // An item of a list begins on the line of its marker.
    if (breaks === 0 || this.#lead !== this.#prefix) return;
    this.#breaks = Math.max(this.#breaks, breaks);
    this.#space = false;
  }

  /** Indents what follows: with the text before each line, or `once` before the first and spaces before the others. Columns. */
  indent(text: string, { once }: { once: boolean }): number {
    if (this.#prefix.length + text.length > MAX_INDENT) return 0;
    this.#prefix += once ? ' '.repeat(text.length) : text;
    this.#lead += text;
    return text.length;
  }

  outdent(columns: number): void {
    this.#prefix = this.#prefix.slice(0, -columns);
    this.#lead = this.#lead.slice(0, -columns);
    if (this.#prefix.length < this.#gap.length) this.#gap = this.#prefix;
  }

  /** A place in the text, for `textSince`. */
  mark(): number {
    return this.#pieces.length;
  }

  textSince(mark: number): string {
    return this.#pieces.slice(mark).join('');
  }

  text(): string {
    const text = this.#pieces.join('').replaceAll('\u00a0', ' ');
    const lines = text.split('\n');
    return lines
      .map((line) => line.trimEnd())
      .join('\n')
      .replace(/\n{3,}/g, '\n\n')
      .trim();
  }

  #begin(): void {
    if (this.#pieces.length === 0 || this.#breaks > 0) {
      if (this.#pieces.length > 0) this.#pieces.push(this.#breaks > 1 ? `\n${this.#gap}\n` : '\n');
      this.#pieces.push(this.#lead);
    } else if (this.#space) this.#pieces.push(' ');
    this.#breaks = 0;
    this.#space = false;
    this.#lead = this.#prefix;
    this.#gap = this.#prefix;
  }
}
