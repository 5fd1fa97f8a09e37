/**
 * A text editor. Tab indents; Escape and then Tab leaves it, and a line below explains this for keyboard users. Errors are marked in the
 * text and listed below, each as a button that jumps to it.
 */
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
import { bracketMatching, indentOnInput } from '@codemirror/language';
import { Annotation, Compartment, EditorState, RangeSetBuilder, StateEffect, StateField } from '@codemirror/state';
import { Decoration, type DecorationSet, EditorView, keymap } from '@codemirror/view';
import { Text } from '@mantine/core';
import { useEffect, useId, useRef } from 'react';
import { editor as texts } from '../../texts/parts.ts';
import classes from './code.module.css';
import { look } from './theme.ts';

/** An error at a position; lines and columns start at 1. */
export interface Mark {
  line: number;
  column: number;
  message: string;
}

export interface EditorProps {
  label: string;
  value: string;
  onChange?: (value: string) => void;
  language: 'html' | 'text';
  marks?: readonly Mark[];
  isReadOnly?: boolean;
}

/** Marks changes made by the page, which need no notification. */
const given = Annotation.define<true>();
const setMarks = StateEffect.define<readonly Mark[]>();

function positionOf(state: EditorState, { line, column }: Mark): number {
  const { from, to } = state.doc.line(Math.min(Math.max(line, 1), state.doc.lines));
  return Math.min(from + Math.max(column, 1) - 1, to);
}

function decorationsOf(state: EditorState, marks: readonly Mark[]): DecorationSet {
  const builder = new RangeSetBuilder<Decoration>();
  const places = marks.map((mark) => positionOf(state, mark)).sort((a, b) => a - b);
  for (const from of new Set(places)) {
    const line = state.doc.lineAt(from);
    const rest = line.text.slice(from - line.from);
    const length = /^\{[{%].*?[}%]\}/.exec(rest)?.[0].length ?? rest.length;
    builder.add(line.from, line.from, Decoration.line({ class: classes.wrongLine }));
    if (length > 0) builder.add(from, from + length, Decoration.mark({ class: classes.wrong }));
  }
  return builder.finish();
}

/** Marks move with the text until the next response has their new position. */
const markField = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(decorations, transaction) {
    const effect = transaction.effects.find((one) => one.is(setMarks));
    if (effect !== undefined) return decorationsOf(transaction.state, effect.value as readonly Mark[]);
    return decorations.map(transaction.changes);
  },
  provide: (field) => EditorView.decorations.from(field),
});

const NONE: readonly Mark[] = [];

function Mistakes({ marks, onGoTo }: { marks: readonly Mark[]; onGoTo(mark: Mark): void }) {
  return (
    <ul className={classes.mistakes} aria-live="polite">
      {marks.map((mark) => (
        <li key={`${mark.line} ${mark.column} ${mark.message}`}>
          <button type="button" onClick={() => onGoTo(mark)}>
            {mark.message}
          </button>
        </li>
      ))}
    </ul>
  );
}

export default function Editor({ label, value, onChange, language, marks = NONE, isReadOnly = false }: EditorProps) {
  const place = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(undefined);
  const changed = useRef(onChange);
  changed.current = onChange;
  const configured = useRef(new Compartment());
  const hintId = useId();

  const settings = () => [
    EditorState.readOnly.of(isReadOnly),
    EditorView.contentAttributes.of({
      'aria-label': label,
      'aria-describedby': hintId,
      'aria-invalid': String(marks.length > 0),
      ...(isReadOnly && { 'aria-readonly': 'true' }),
    }),
  ];
  useEffect(() => {
    const made = new EditorView({
      parent: place.current!,
      doc: value,
      extensions: [
        history(),
        indentOnInput(),
        bracketMatching(),
        markField,
        look(language),
        keymap.of([...defaultKeymap, ...historyKeymap, indentWithTab]),
        configured.current.of(settings()),
        EditorView.updateListener.of((update) => {
          const isTyped = !update.transactions.some((one) => one.annotation(given));
          if (update.docChanged && isTyped) changed.current?.(update.state.doc.toString());
        }),
      ],
    });
    view.current = made;
    return () => made.destroy();
  }, [language]);
  useEffect(() => {
    const { state } = view.current!;
    // Typed text comes back as the value; any other value replaces the text.
    if (state.doc.toString() === value) return;
    view.current!.dispatch({
      changes: { from: 0, to: state.doc.length, insert: value },
      annotations: given.of(true),
    });
  }, [value]);
  useEffect(() => {
    view.current!.dispatch({ effects: [configured.current.reconfigure(settings()), setMarks.of(marks)] });
  }, [label, marks, isReadOnly]);

  const goTo = (mark: Mark): void => {
    const at = positionOf(view.current!.state, mark);
    view.current!.dispatch({ selection: { anchor: at }, scrollIntoView: true });
    view.current!.focus();
  };
  return (
    <div>
      <div ref={place} className={classes.editor} data-wrong={marks.length > 0 || undefined} />
      <Text id={hintId} size="xs" c="dimmed" mt={4}>
        {isReadOnly ? texts.readOnly : texts.leave}
      </Text>
      <Mistakes marks={marks} onGoTo={goTo} />
    </div>
  );
}
