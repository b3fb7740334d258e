// Everyday work by the client that openapi-generator makes in Go: search, read, a dry run, update, an error.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"gateway"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	configuration := gateway.NewConfiguration()
	configuration.Servers = gateway.ServerConfigurations{{URL: os.Getenv("GATEWAY_URL")}}
	users := gateway.NewAPIClient(configuration).UsersAPI
	keys := map[string]gateway.APIKey{"apiKey": {Key: os.Getenv("GATEWAY_KEY")}}
	as := context.WithValue(context.Background(), gateway.ContextAPIKeys, keys)

	page, _, err := users.UsersSearch(as).Base(os.Getenv("GATEWAY_UNIT")).PageSize(10).Execute()
	must(err)
	read, _, err := users.UsersRead(as, page.Items[0].Id).Execute()
	must(err)

	title, expires := "Countess", "2199-01-01T00:00:00Z"
	changes := gateway.NewUpdateAccount()
	changes.SetReplace(map[string]gateway.ReplaceValue{"title": gateway.StringAsReplaceValue(&title)})
	changes.SetAccount(gateway.AccountPart{ExpiresAt: &expires})
	planned, _, err := users.UsersUpdate(as, read.Id).UpdateAccount(*changes).DryRun(true).Execute()
	must(err)
	if planned.DryRun == nil || len(planned.DryRun.Changes) != 2 {
		panic("no dry run")
	}
	version := fmt.Sprintf("%q", read.Version)
	_, _, err = users.UsersUpdate(as, read.Id).UpdateAccount(*changes).IfMatch(version).XChangeReason("Promoted").Execute()
	must(err)

	_, missing, err := users.UsersRead(as, "00000000-0000-0000-0000-000000000000").Execute()
	if err == nil {
		panic("somebody was found where nobody is")
	}
	refusal, err := io.ReadAll(missing.Body)
	must(err)
	fmt.Println(string(refusal))
}
