/**
 * The appearance of code: colors are the portal's variables, so one theme covers light and dark mode, and {{ }} and {% %} are highlighted
 * in any language.
 */
import { html } from '@codemirror/lang-html';
import { syntaxHighlighting } from '@codemirror/language';
import { EditorState, type Extension } from '@codemirror/state';
import { Decoration, type DecorationSet, EditorView, lineNumbers, MatchDecorator, ViewPlugin } from '@codemirror/view';
import classes from './code.module.css';

const nonce = document.querySelector<HTMLMetaElement>('meta[property="csp-nonce"]')?.nonce ?? '';

/** By the name of the syntax node; the most specific name applies. */
const CLASSES: Readonly<Record<string, string | undefined>> = {
  tagName: classes.tag,
  angleBracket: classes.punctuation,
  attributeName: classes.name,
  attributeValue: classes.value,
  string: classes.value,
  number: classes.value,
  comment: classes.comment,
  propertyName: classes.name,
  keyword: classes.tag,
  character: classes.value,
  processingInstruction: classes.comment,
};

const highlighter = syntaxHighlighting({
  style(tags) {
    for (const tag of tags)
      for (const one of tag.set) {
        const found = CLASSES[one.toString()];
        if (found !== undefined) return found;
      }
    return null;
  },
});

const liquid = new MatchDecorator({
  regexp: /\{\{.*?\}\}|\{%.*?%\}/g,
  decoration: ([text]) => Decoration.mark({ class: text.startsWith('{%') ? classes.logic : classes.output }),
});

const liquidHighlighter = ViewPlugin.fromClass(
  class {
    decorations: DecorationSet;
    constructor(view: EditorView) {
      this.decorations = liquid.createDeco(view);
    }
    update(update: Parameters<typeof liquid.updateDeco>[0]) {
      this.decorations = liquid.updateDeco(update, this.decorations);
    }
  },
  { decorations: (plugin) => plugin.decorations },
);

const theme = EditorView.theme({
  '&': { fontSize: '0.75rem', color: 'var(--mantine-color-text)', backgroundColor: 'var(--panel)' },
  '&.cm-focused': { outline: '2px solid var(--mantine-color-anchor)', outlineOffset: '1px' },
  '.cm-scroller': { fontFamily: 'var(--mantine-font-family-monospace)', lineHeight: '1.6' },
  '.cm-content': { caretColor: 'var(--mantine-color-text)' },
  '.cm-cursor': { borderLeftColor: 'var(--mantine-color-text)' },
  '.cm-gutters': {
    backgroundColor: 'var(--side)',
    color: 'var(--mantine-color-dimmed)',
    border: 'none',
    borderRight: '1px solid var(--line)',
  },
});

/** Extensions shared by editors and diffs. */
export function look(language: 'html' | 'text'): Extension {
  return [
    EditorView.cspNonce.of(nonce),
    theme,
    highlighter,
    liquidHighlighter,
    lineNumbers(),
    EditorView.lineWrapping,
    EditorState.tabSize.of(2),
    language === 'html' ? html({ autoCloseTags: false }) : [],
  ];
}
