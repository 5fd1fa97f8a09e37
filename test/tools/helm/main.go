// Renders a Helm chart with the libraries that Helm itself consists of: text/template, sprig, sigs.k8s.io/yaml, and gojsonschema. Reads
// the release and its values as JSON from stdin, and writes a JSON object with the text of every template, or the error to stderr. It
// has no cluster, no dependencies of charts, and no functions that Helm does not have: a template that needs more fails.
package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig/v3"
	"github.com/xeipuuv/gojsonschema"
	"sigs.k8s.io/yaml"
)

type table = map[string]interface{}

type request struct {
	Chart     string
	Release   string
	Namespace string
	IsUpgrade bool
	Values    table
}

// metadata has the fields of Chart.yaml that templates can read as .Chart.
type metadata struct {
	Name, Version, AppVersion, Description, KubeVersion, Type, APIVersion string
}

// files is .Files: everything in the chart that Helm does not read itself.
type files map[string][]byte

func (f files) Get(name string) string { return string(f[name]) }

type chart struct {
	metadata  metadata
	defaults  table
	schema    []byte
	templates map[string]string
	files     files
}

// load reads a chart from its folder and follows symbolic links, as Helm does.
func load(folder string) (chart, error) {
	c := chart{templates: map[string]string{}, files: files{}, defaults: table{}}
	err := filepath.WalkDir(folder, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(folder, file)
		if err != nil {
			return err
		}
		switch name = filepath.ToSlash(name); {
		case name == "Chart.yaml":
			return yaml.UnmarshalStrict(text, &struct{ *metadata }{&c.metadata})
		case name == "values.yaml":
			return yaml.UnmarshalStrict(text, &c.defaults)
		case name == "values.schema.json":
			c.schema = text
		case strings.HasPrefix(name, "templates/"):
			c.templates[path.Join(c.metadata.Name, name)] = string(text)
		default:
			c.files[name] = text
		}
		return nil
	})
	return c, err
}

// coalesce puts the defaults of the chart under the values. A null deletes the default, and lists are replaced.
func coalesce(values, defaults table) table {
	for key, fallback := range defaults {
		value, isSet := values[key]
		if !isSet {
			values[key] = fallback
			continue
		}
		if value == nil {
			delete(values, key)
			continue
		}
		below, isTable := fallback.(table)
		above, wasTable := value.(table)
		if isTable && wasTable {
			values[key] = coalesce(above, below)
		}
	}
	return values
}

func validate(values table, schema []byte) error {
	result, err := gojsonschema.Validate(gojsonschema.NewBytesLoader(schema), gojsonschema.NewGoLoader(values))
	if err != nil {
		return err
	}
	if result.Valid() {
		return nil
	}
	text := "values don't meet the specifications of the schema(s) in the following chart(s):"
	for _, one := range result.Errors() {
		text += "\n- " + one.String()
	}
	return fmt.Errorf("%s", text)
}

func toYAML(value interface{}) string {
	text, err := yaml.Marshal(value)
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(text), "\n")
}

func fromYAML(text string) table {
	value := table{}
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		value["Error"] = err.Error()
	}
	return value
}

func functions(all *template.Template) template.FuncMap {
	known := sprig.TxtFuncMap()
	delete(known, "env")
	delete(known, "expandenv")
	known["toYaml"] = toYAML
	known["fromYaml"] = fromYAML
	known["include"] = func(name string, data interface{}) (string, error) {
		var text strings.Builder
		err := all.ExecuteTemplate(&text, name, data)
		return text.String(), err
	}
	known["required"] = func(message string, value interface{}) (interface{}, error) {
		if value == nil || value == "" {
			return nil, fmt.Errorf("%s", message)
		}
		return value, nil
	}
	return known
}

func render(c chart, asked request) (map[string]string, error) {
	all := template.New("gotpl").Option("missingkey=zero")
	all.Funcs(functions(all))
	names := []string{}
	for name := range c.templates {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		if _, err := all.New(name).Parse(c.templates[name]); err != nil {
			return nil, err
		}
	}
	rendered := map[string]string{}
	for _, name := range names {
		if strings.HasPrefix(path.Base(name), "_") {
			continue
		}
		data := table{
			"Values": asked.Values,
			"Chart":  c.metadata,
			"Files":  c.files,
			"Release": table{
				"Name":      asked.Release,
				"Namespace": asked.Namespace,
				"IsInstall": !asked.IsUpgrade,
				"IsUpgrade": asked.IsUpgrade,
				"Revision":  1,
				"Service":   "Helm",
			},
			"Template": table{"Name": name, "BasePath": path.Join(c.metadata.Name, "templates")},
		}
		var text strings.Builder
		if err := all.ExecuteTemplate(&text, name, data); err != nil {
			return nil, err
		}
		rendered[strings.TrimPrefix(name, c.metadata.Name+"/templates/")] = strings.ReplaceAll(text.String(), "<no value>", "")
	}
	return rendered, nil
}

func run() error {
	var asked request
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		return err
	}
	c, err := load(asked.Chart)
	if err != nil {
		return err
	}
	asked.Values = coalesce(asked.Values, c.defaults)
	if err := validate(asked.Values, c.schema); err != nil {
		return err
	}
	rendered, err := render(c, asked)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(rendered)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
